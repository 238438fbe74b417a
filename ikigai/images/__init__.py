"""Turn an image file into a picture that every vendor takes, without metadata and no larger than needed.

    file                                       result
    PNG, JPEG or WebP that fits                its pixels byte for byte, without all else in the file
    larger, turned, animated, CMYK, 16 bits    its first frame drawn anew, upright, in 8 bits, with or without alpha
    GIF                                        its first frame as PNG: Google takes no GIF
    anything else                              refused in words

Requests go to a third party, and a photo's file says where it was taken, with what, and when. So nothing but the pixels
and the data to show them leaves here: no EXIF, XMP, IPTC, text, thumbnail, no data behind the end. Only
`read_picture` imports Pillow.
"""

import base64
import io
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ikigai.core.errors import Rejected
from ikigai.core.events.messages import Image
from ikigai.core.text.sanitize import storable
from ikigai.images.picture_files import GIF, JPEG, PICTURE_ENDINGS, PNG, WEBP, media_type_of, read_bounded
from ikigai.images.pixel_limits import MAX_OPENED_PIXELS, held_by_scans, most_pixels
from ikigai.images.strip_metadata import strip_metadata

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

__all__ = ["PICTURE_ENDINGS", "media_type_of", "read_picture", "unseen_notice"]

log = logging.getLogger(__name__)

MAX_EDGE_PIXELS = 1568
"""Most pixels of the longer edge. Anthropic scales down longer ones before a model sees them (and takes 8,000, or 2,000
where a request holds more than 20 images). OpenAI fits images into 2,048 × 2,048 and then to a shorter edge of 768.
"""
MAX_IMAGE_BYTES = 1 << 20
"""Most bytes of a file as it is sent, a third more in base64. For one image Anthropic takes 5 MB of base64. But all
images in the window go with every request, and a whole request may have 20 MB with Google and 32 with Anthropic.
"""
LOSSY_QUALITIES = (90, 75, 60)
"""Qualities of JPEG and lossy WebP, tried in this order; where none is small enough, the picture is made smaller."""

_FORMATS = {PNG: "PNG", JPEG: "JPEG", WEBP: "WEBP", GIF: "GIF"}
_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA")
_ORIENTATION = 0x0112
_MAX_COLOR_PROFILE_BYTES = 1 << 16


def read_picture(file: BinaryIO, name: str) -> Image | None:
    """Return the image in an open file. Return None where it holds none: then only its first bytes were read, and it is
    at its beginning again. Raise Rejected, calling it `name`; block.
    """
    kind = media_type_of(file.read(16))
    file.seek(0)
    return _image(read_bounded(file, name), kind, name, Path(name).name) if kind else None


def _image(data: bytes, kind: str, name: str, short: str) -> Image:
    try:
        media_type, made, (width, height) = _encode_file(data, kind, name)
    except Rejected:
        raise
    except Exception:  # decoders raise anything for a damaged file
        log.debug("%s cannot be decoded", name, exc_info=True)
        raise Rejected(f"{name} is damaged or incomplete.", "Open it in another program and save it again.") from None
    return Image(media_type, base64.b64encode(made).decode(), width, height, storable(short))


def unseen_notice(model: str) -> str:
    """Return the warning for images that go to a model that is known to see none."""
    return f"{model} sees no images: they are kept in the conversation for models that do."


def _encode_file(data: bytes, kind: str, name: str) -> tuple[str, bytes, tuple[int, int]]:
    """Return the sent form of a file: its type, its bytes, its width and height."""
    from PIL import Image as pillow

    pillow.MAX_IMAGE_PIXELS = None  # the check below is ours
    warnings.filterwarnings("ignore", module="PIL")  # they would be written across the screen
    with pillow.open(io.BytesIO(data), formats=[_FORMATS[kind]]) as picture:
        width, height = picture.size
        if width * height > (most := most_pixels(picture, data, kind)):
            of = "" if most == MAX_OPENED_PIXELS else " for a file of its kind"
            what = f"{name} has {width:,} × {height:,} pixels, and {most // 1_000_000} million is the limit{of}."
            raise Rejected(what, "Make it smaller first.")
        if _fits(picture, data, kind) and (kept := _strip_and_test(data, kind)):
            return kind, kept, picture.size
        drawn = _draw_frame(picture, data, kind)
    media_type, made = next(each for each in _encodings(drawn, kind) if len(each[1]) <= MAX_IMAGE_BYTES)
    with pillow.open(io.BytesIO(made)) as sent:
        return media_type, made, sent.size


def _fits(picture: "Picture", data: bytes, kind: str) -> bool:
    """Return True if its pixels can stay as they are."""
    deep = kind == PNG and data[24:25] == b"\x10"  # bits per sample; Pillow hides them
    moving = kind == WEBP and getattr(picture, "is_animated", False)  # of a PNG only the first frame is kept
    fits = kind != GIF and picture.mode in _MODES and max(picture.size) <= MAX_EDGE_PIXELS
    return fits and not deep and not moving and _orientation(picture, data, kind) == 1


def _strip_and_test(data: bytes, kind: str) -> bytes:
    """Return the file stripped of all but the picture and tested; b"" when it is too large, or damaged."""
    from PIL import Image as pillow

    try:
        kept = strip_metadata(data, kind)
    except ValueError:
        return b""
    if len(kept) > MAX_IMAGE_BYTES:
        return b""
    with pillow.open(io.BytesIO(kept), formats=[_FORMATS[kind]]) as picture:
        picture.load()
    return kept


def _orientation(picture: "Picture", data: bytes, kind: str) -> int:
    from PIL.Image import Image

    from ikigai.images.strips import png_chunks

    try:
        if kind == PNG and (exif := next(png_chunks(data, b"eXIf"), b"")):
            picture.info["exif"] = exif
        # Pillow's own method for PNG decodes the whole picture first: its chunk may stand behind the pixels.
        return int(Image.getexif(picture).get(_ORIENTATION, 1))
    except Exception:  # damaged EXIF is not a reason to refuse a picture
        return 1


def _draw_frame(picture: "Picture", data: bytes, kind: str) -> "Picture":
    """Draw the first frame, upright, 8 bits a sample, grey or RGB with or without alpha, no longer than allowed."""
    from PIL.Image import Transpose

    from ikigai.images.strips import scale_picture

    if kind == JPEG:
        # It decodes no more than is needed: 1, 4, 16 or 64 pixels as one, as long as the longer edge is long enough.
        needed = MAX_EDGE_PIXELS if held_by_scans(data) else 2 * MAX_EDGE_PIXELS
        width, height = (max(1, edge * needed // max(picture.size)) for edge in picture.size)
        picture.draft(None, (width, height))
    turn = _orientation(picture, data, kind)
    drawn = scale_picture(picture, data if kind == PNG else b"", MAX_EDGE_PIXELS)
    turns = {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }
    return drawn.transpose(turns[turn]) if turn in turns else drawn


def _encodings(drawn: "Picture", kind: str) -> Iterator[tuple[str, bytes]]:
    """Yield the picture as files, from the best to the smallest: lossless where it was, then lossy, then with fewer
    pixels.

    JPEG has no alpha, WebP has.
    """
    profile = drawn.info.get("icc_profile") or b""
    space = b"GRAY" if drawn.mode == "L" else b"RGB "
    icc = profile if profile[16:20] == space and len(profile) <= _MAX_COLOR_PROFILE_BYTES else None
    lossy = WEBP if kind == WEBP or drawn.mode == "RGBA" else JPEG

    def file(form: str, **options: object) -> tuple[str, bytes]:
        out = io.BytesIO()
        clean = drawn.copy()
        clean.info.clear()  # else Pillow writes EXIF, XMP and comments again
        clean.save(out, _FORMATS[form], icc_profile=icc, **options)
        return form, out.getvalue()

    if kind in (PNG, GIF):
        yield file(PNG)
    while True:
        for quality in LOSSY_QUALITIES:
            sampled = {"subsampling": 0} if lossy == JPEG and kind != JPEG else {}  # letters stay sharp
            yield file(lossy, quality=quality, **sampled)
        drawn = drawn.resize((max(1, drawn.width * 3 // 4), max(1, drawn.height * 3 // 4)))
