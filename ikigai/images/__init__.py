"""Images a user shows: a file → a picture that every vendor takes, no larger than a model sees, and nothing else of it.

    the file                                   what becomes of it
    PNG, JPEG or WebP that fits                its pixels byte for byte, without what else is in the file
    larger, turned, animated, CMYK, 16 bits    its first frame drawn anew, upright, in 8 bits, with or without alpha
    GIF                                        its first frame as PNG: Google takes no GIF
    anything else                              refused in words

What is sent goes to a third party, and a photo's file says where it was taken, with what, and when. So nothing but the
pixels and what is needed to show them leaves here: no EXIF, XMP, IPTC, text, thumbnail, no data behind the end. Only
`attach` and `pictured` import Pillow.
"""

import asyncio
import base64
import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ikigai.core.errors import Refused
from ikigai.core.messages import Image
from ikigai.core.sanitize import storable
from ikigai.images.mentioned_files import (
    GIF,
    JPEG,
    PNG,
    WEBP,
    Mentioned,
    bounded,
    mention,
    mentioned,
    mentions,
    named,
    read,
    recognised,
)
from ikigai.images.strip_metadata import bare

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

__all__ = ["attach", "attach_all", "attached", "mention", "mentioned", "named", "pictured", "unseen"]

log = logging.getLogger(__name__)

LONGEST = 1568
"""Pixels of the longer edge. Anthropic scales down what is longer before a model sees it (and takes 8,000, or 2,000
where a request holds more than 20 images); OpenAI fits images into 2,048 × 2,048 and then to a shorter edge of 768."""
LARGEST = 1 << 20
"""Bytes of a file as it is sent, a third more in base64. For one image Anthropic takes 5 MB of base64; but all images
in the window go with every request, and a whole request may have 20 MB with Google and 32 with Anthropic."""
MOST, LARGEST_TOGETHER = 20, 14_000_000
"""Images of one message, and characters of their base64: see above."""
MOST_PIXELS = 100_000_000
"""Pixels of a file that is opened at all: decoded they take 400 MB, and a file of a few kilobytes can claim more."""
QUALITIES = (90, 75, 60)
"""Of JPEG and lossy WebP, tried in this order; where none is small enough, the picture is made smaller."""

_FORMATS = {PNG: "PNG", JPEG: "JPEG", WEBP: "WEBP", GIF: "GIF"}
_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA")
_ORIENTATION = 0x0112
_LARGEST_PROFILE = 1 << 16


async def attached(text: str, folder: Path | None = None) -> tuple[Image, ...]:
    """The images that a message mentions, each once, in order; read in a thread.

    Raises Refused for the first that cannot be attached. Relative paths start at `folder`, by default the working
    directory.
    """
    return await asyncio.to_thread(lambda: attach_all(mentions(text, folder)))


def attach_all(files: Sequence[Mentioned]) -> tuple[Image, ...]:
    """The images in these files. Raises Refused for the first that cannot be attached, and for too many; blocks."""
    if len(files) > MOST:
        raise Refused(f"{len(files)} images are too many for one message.", f"Send {MOST} at a time.")
    images = tuple(map(attach, files))
    if sum(len(image.data) for image in images) > LARGEST_TOGETHER:
        raise Refused("These images are too large for one message.", "Send them in several messages.")
    return images


def attach(file: Path | Mentioned) -> Image:
    """The image in this file, by what it holds and not by its name. Raises Refused, in words; blocks.

    A file has 50 MB at most. Pillow is imported here.
    """
    path, name = (file.path, file.name) if isinstance(file, Mentioned) else (file, str(file))
    data = read(path, name)
    kind = recognised(data)
    if not kind:
        raise Refused(f"{name} is no PNG, JPEG, WebP or GIF.", "Convert it to one of them, or take the @ away.")
    return _image(data, kind, name, path.name)


def pictured(file: BinaryIO, name: str) -> Image | None:
    """The image in an open file, None where it holds none: then nothing but its first bytes was read, and it is at its
    begin again. Raises Refused, calling it `name`; blocks.
    """
    kind = recognised(file.read(16))
    file.seek(0)
    return _image(bounded(file, name), kind, name, Path(name).name) if kind else None


def _image(data: bytes, kind: str, name: str, short: str) -> Image:
    try:
        media_type, made, (width, height) = _made(data, kind, name)
    except Refused:
        raise
    except Exception:  # decoders raise whatever a damaged file leads them to
        log.debug("%s cannot be decoded", name, exc_info=True)
        raise Refused(f"{name} is damaged or incomplete.", "Open it in another program and save it anew.") from None
    return Image(media_type, base64.b64encode(made).decode(), width, height, storable(short))


def unseen(model: str) -> str:
    """What is said when images go to a model that is known to see none."""
    return f"{model} sees no images: they are kept in the conversation for models that do."


def _made(data: bytes, kind: str, name: str) -> tuple[str, bytes, tuple[int, int]]:
    """What is sent of a file: its type, its bytes, its width and height."""
    from PIL import Image as pillow

    pillow.MAX_IMAGE_PIXELS = None  # the check below is ours
    warnings.filterwarnings("ignore", module="PIL")  # they would be written across the screen
    with pillow.open(io.BytesIO(data), formats=[_FORMATS[kind]]) as picture:
        width, height = picture.size
        if width * height > MOST_PIXELS:
            most = f"{MOST_PIXELS // 1_000_000} million are the most"
            raise Refused(f"{name} has {width:,} × {height:,} pixels, and {most}.", "Make it smaller first.")
        if _fits(picture, data, kind) and (kept := _kept(data, kind)):
            return kind, kept, picture.size
        drawn = _drawn(picture, data, kind)
    media_type, made = next(each for each in _written(drawn, kind) if len(each[1]) <= LARGEST)
    with pillow.open(io.BytesIO(made)) as sent:
        return media_type, made, sent.size


def _fits(picture: "Picture", data: bytes, kind: str) -> bool:
    """Whether its pixels can stay as they are."""
    deep = kind == PNG and data[24:25] == b"\x10"  # bits per sample; Pillow hides them
    moving = kind == WEBP and getattr(picture, "is_animated", False)  # of a PNG only the first frame is kept
    fits = kind != GIF and picture.mode in _MODES and max(picture.size) <= LONGEST
    return fits and not deep and not moving and _orientation(picture, data, kind) == 1


def _kept(data: bytes, kind: str) -> bytes:
    """The file without what is no picture, tried; empty when it is too large, or its parts are not what they should."""
    from PIL import Image as pillow

    try:
        kept = bare(data, kind)
    except ValueError:
        return b""
    if len(kept) > LARGEST:
        return b""
    with pillow.open(io.BytesIO(kept), formats=[_FORMATS[kind]]) as picture:
        picture.load()
    return kept


def _orientation(picture: "Picture", data: bytes, kind: str) -> int:
    from PIL.Image import Image

    from ikigai.images.strips import chunks

    try:
        if kind == PNG and (exif := next(chunks(data, b"eXIf"), b"")):
            picture.info["exif"] = exif
        # That of a PNG itself decodes the whole picture first: what it looks for may stand behind the pixels.
        return int(Image.getexif(picture).get(_ORIENTATION, 1))
    except Exception:  # damaged EXIF is no reason to refuse a picture
        return 1


def _drawn(picture: "Picture", data: bytes, kind: str) -> "Picture":
    """The first frame, upright, 8 bits a sample, grey or RGB with or without alpha, no longer than it may be."""
    from PIL.Image import Transpose

    from ikigai.images.strips import scaled

    if kind == JPEG:
        picture.draft(None, (2 * LONGEST, 2 * LONGEST))  # decodes no more than is needed of it
    turn = _orientation(picture, data, kind)
    drawn = scaled(picture, data if kind == PNG else b"", LONGEST)
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


def _written(drawn: "Picture", kind: str) -> Iterator[tuple[str, bytes]]:
    """The picture as files, from the best to the smallest: lossless where it was, then lossy, then with fewer pixels.

    JPEG has no alpha, WebP has.
    """
    profile = drawn.info.get("icc_profile") or b""
    space = b"GRAY" if drawn.mode == "L" else b"RGB "
    icc = profile if profile[16:20] == space and len(profile) <= _LARGEST_PROFILE else None
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
        for quality in QUALITIES:
            sampled = {"subsampling": 0} if lossy == JPEG and kind != JPEG else {}  # letters stay sharp
            yield file(lossy, quality=quality, **sampled)
        drawn = drawn.resize((max(1, drawn.width * 3 // 4), max(1, drawn.height * 3 // 4)))
