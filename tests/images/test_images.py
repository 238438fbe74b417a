"""Images get from a file into a message: real files of every kind, whole, strange, hostile and broken."""

import base64
import io
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pillow
from PIL import ImageCms, ImageDraw, PngImagePlugin

from ikigai.core.errors import Rejected
from ikigai.core.events.messages import Image
from ikigai.images import MAX_EDGE_PIXELS, MAX_IMAGE_BYTES, read_picture
from ikigai.images.picture_files import GIF, JPEG, MAX_PICTURE_FILE_BYTES, PNG, WEBP, media_type_of
from ikigai.images.strip_metadata import strip_metadata
from tests import ROOT
from tests.images.attach import attach

RED, BLUE = (250, 10, 10), (10, 10, 250)
SECRET = b"51.4779N"


def picture(width: int = 60, height: int = 40, mode: str = "RGB") -> Pillow.Image:
    """Return a picture, red on the left, blue on the right; in its upper left corner a white dot."""
    made = Pillow.new("RGB", (width, height), RED)
    draw = ImageDraw.Draw(made)
    draw.rectangle((width // 2, 0, width, height), fill=BLUE)
    draw.rectangle((0, 0, width // 10, height // 10), fill="white")
    return made.convert(mode)


def noise(width: int, height: int, mode: str = "RGB") -> Pillow.Image:
    return Pillow.frombytes(mode, (width, height), Random(1).randbytes(width * height * len(mode)))


def saved(folder: Path, made: Pillow.Image, name: str, **options: Any) -> Path:
    path = folder / name
    made.save(path, **options)
    return path


def sent(image: Image) -> Pillow.Image:
    """Return the picture that a vendor gets; check that it matches its record."""
    data = base64.b64decode(image.data, validate=True)
    assert media_type_of(data) == image.media_type and image.media_type in (PNG, JPEG, WEBP)
    assert len(data) <= MAX_IMAGE_BYTES
    opened = Pillow.open(io.BytesIO(data))
    opened.load()
    assert opened.size == (image.width, image.height) and max(opened.size) <= MAX_EDGE_PIXELS
    assert opened.mode in ("1", "L", "LA", "P", "RGB", "RGBA")
    assert not opened.getexif() and not {"exif", "xmp", "comment", "photoshop", "icc_profile"} & opened.info.keys()
    return opened


def near(pixel: object, colour: tuple[int, ...]) -> bool:
    assert isinstance(pixel, tuple)
    return all(abs(is_ - should) < 40 for is_, should in zip(pixel, colour, strict=False))


def data_of(image: Image) -> bytes:
    return base64.b64decode(image.data)


# -- what stays as it is ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "media_type", "options"),
    [
        ("a.png", PNG, {}),
        ("a.jpg", JPEG, {"quality": 90}),
        ("progressive.jpg", JPEG, {"progressive": True}),
        ("restarts.jpg", JPEG, {"restart_marker_blocks": 2}),
        ("a.webp", WEBP, {"quality": 80}),
        ("lossless.webp", WEBP, {"lossless": True}),
    ],
)
def test_file_that_fits_is_sent_byte_for_byte(tmp_path: Path, name: str, media_type: str, options: dict[str, Any]):
    path = saved(tmp_path, picture(), name, **options)
    image = attach(path)
    assert (image.media_type, image.width, image.height, image.name) == (media_type, 60, 40, name)
    assert data_of(image) == path.read_bytes()
    sent(image)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
def test_ordinary_modes_of_png_stay(tmp_path: Path, mode: str):
    path = saved(tmp_path, picture(mode=mode), "a.png")
    assert data_of(attach(path)) == path.read_bytes()


def test_content_counts_and_not_the_name(tmp_path: Path):
    path = saved(tmp_path, picture(), "lies.png", format="JPEG")
    assert attach(path).media_type == JPEG
    bare_name = saved(tmp_path, picture(), "photo", format="WEBP")
    assert attach(bare_name).media_type == WEBP


# -- what is in files besides pixels ------------------------------------------------------------------------------


def described(made: Pillow.Image) -> bytes:
    """Return EXIF with a place and a camera."""
    exif = made.getexif()
    exif[0x010F] = "Camera " + SECRET.decode()
    exif.get_ifd(0x8825)[1] = SECRET.decode()
    return exif.tobytes()


def test_photo_does_not_tell_where_it_was_taken(tmp_path: Path):
    made = picture()
    exif, xmp = described(made), b"<x:xmpmeta>" + SECRET + b"</x:xmpmeta>"
    texts = PngImagePlugin.PngInfo()
    texts.add_text("Comment", SECRET.decode())
    texts.add_text("Zipped", SECRET.decode(), zip=True)
    texts.add_itxt("XML:com.adobe.xmp", xmp.decode())
    files = [
        saved(tmp_path, made, "a.jpg", exif=exif, xmp=xmp, comment=SECRET),
        saved(tmp_path, made, "a.png", exif=exif, pnginfo=texts),
        saved(tmp_path, made, "a.webp", exif=exif, xmp=xmp),
    ]
    for path in files:
        before = Pillow.open(path)
        assert before.getexif() and SECRET in path.read_bytes()
        image = attach(path)
        after = sent(image)
        assert SECRET not in data_of(image) and not getattr(after, "text", {})
        assert after.convert("RGB").tobytes() == before.convert("RGB").tobytes(), "not one pixel differs"


def test_nor_does_one_that_is_drawn_anew(tmp_path: Path):
    made = picture(2000, 1000)
    exif, xmp = described(made), b"<x:xmpmeta>" + SECRET + b"</x:xmpmeta>"
    texts = PngImagePlugin.PngInfo()
    texts.add_text("Comment", SECRET.decode())
    texts.add_itxt("XML:com.adobe.xmp", xmp.decode())
    for path in (
        saved(tmp_path, made, "a.jpg", exif=exif, xmp=xmp, comment=SECRET),
        saved(tmp_path, made, "a.png", exif=exif, pnginfo=texts),
        saved(tmp_path, made, "a.webp", exif=exif, xmp=xmp),
        saved(tmp_path, made, "a.gif", comment=SECRET),
    ):
        assert SECRET in path.read_bytes()
        image = attach(path)
        assert SECRET not in data_of(image) and not getattr(sent(image), "text", {})


def test_webp_does_not_announce_what_was_taken_out(tmp_path: Path):
    image = attach(saved(tmp_path, picture(mode="RGBA"), "a.webp", exif=described(picture()), xmp=b"<x/>"))
    data = data_of(image)
    assert data[12:16] == b"VP8X" and data[20] & 0x0C == 0
    assert b"EXIF" not in data and struct.unpack_from("<I", data, 4)[0] == len(data) - 8


def test_nothing_behind_the_end_is_sent(tmp_path: Path):
    for name in ("a.png", "a.jpg", "a.webp"):
        path = saved(tmp_path, picture(), name)
        whole = path.read_bytes()
        path.write_bytes(whole + SECRET)
        assert data_of(attach(path)) == whole


def test_profile_stays_with_the_colours_it_belongs_to(tmp_path: Path):
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    for name in ("a.jpg", "a.png", "a.webp"):
        small = attach(saved(tmp_path, picture(), name, icc_profile=profile))
        large = attach(saved(tmp_path, picture(2000, 1000), f"large-{name}", icc_profile=profile))
        for image in (small, large):
            opened = Pillow.open(io.BytesIO(data_of(image)))
            assert opened.info["icc_profile"] == profile
    grey = attach(saved(tmp_path, picture(2000, 1000, "L"), "grey.jpg", icc_profile=profile))
    sent(grey)


def test_second_picture_of_a_stereo_photo_is_left_out(tmp_path: Path):
    path = saved(tmp_path, picture(), "a.mpo", save_all=True, append_images=[noise(60, 40)])
    image = attach(path)
    assert image.media_type == JPEG and len(data_of(image)) < path.stat().st_size / 2
    assert near(sent(image).convert("RGB").getpixel((50, 30)), BLUE)


@given(st.binary(max_size=200), st.sampled_from([PNG, JPEG, WEBP]))
def test_no_bytes_break_the_cutting(data: bytes, kind: str):
    heads = {PNG: b"\x89PNG\r\n\x1a\n", JPEG: b"\xff\xd8\xff", WEBP: b"RIFF\x40\x00\x00\x00WEBP"}
    try:
        made = strip_metadata(heads[kind] + data, kind)
    except ValueError:
        return
    assert len(made) <= len(heads[kind] + data) + 1  # the padding that some writers leave out
    assert strip_metadata(made, kind) == made, "done twice it changes nothing"


# -- what is drawn anew -------------------------------------------------------------------------------------------


@pytest.mark.ordinary("size0-a.png", "size1-a.webp", "size2-a.gif", "*-a.jpg", "size3-*")
@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.webp", "a.gif"])
@pytest.mark.parametrize("size", [(4000, 1000), (1000, 4000), (1569, 1569), (20_000, 3)])
def test_what_is_too_long_is_made_smaller(tmp_path: Path, name: str, size: tuple[int, int]):
    if name == "a.webp" and max(size) > 16383:
        pytest.skip("WebP cannot be so long")
    image = attach(saved(tmp_path, picture(*size), name))
    opened = sent(image).convert("RGB")
    assert max(opened.size) == MAX_EDGE_PIXELS
    assert abs(opened.width / opened.height - size[0] / size[1]) / (size[0] / size[1]) < 0.01 or min(opened.size) == 1
    if min(opened.size) > 1:
        assert near(opened.getpixel((opened.width // 4, opened.height // 2)), RED)
        assert near(opened.getpixel((opened.width * 3 // 4, opened.height // 2)), BLUE)


def test_sharp_things_stay_lossless(tmp_path: Path):
    assert attach(saved(tmp_path, picture(3000, 500), "a.png")).media_type == PNG
    assert attach(saved(tmp_path, picture(3000, 500), "a.gif")).media_type == PNG
    assert attach(saved(tmp_path, picture(3000, 500), "a.jpg")).media_type == JPEG
    assert attach(saved(tmp_path, picture(3000, 500), "a.webp")).media_type == WEBP


def test_what_does_not_compress_is_written_lossily_and_smaller(tmp_path: Path):
    opaque = attach(saved(tmp_path, noise(900, 900), "a.png", compress_level=0))
    assert opaque.media_type == JPEG
    sent(opaque)
    clear = attach(saved(tmp_path, noise(900, 900, "RGBA"), "b.png", compress_level=0))
    assert clear.media_type == WEBP and sent(clear).mode == "RGBA"


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.webp"])
def test_photos_stand_upright(tmp_path: Path, orientation: int, name: str):
    upright = picture()
    turned = {
        1: upright,
        2: upright.transpose(Pillow.Transpose.FLIP_LEFT_RIGHT),
        3: upright.transpose(Pillow.Transpose.ROTATE_180),
        4: upright.transpose(Pillow.Transpose.FLIP_TOP_BOTTOM),
        5: upright.transpose(Pillow.Transpose.TRANSPOSE),
        6: upright.transpose(Pillow.Transpose.ROTATE_90),
        7: upright.transpose(Pillow.Transpose.TRANSVERSE),
        8: upright.transpose(Pillow.Transpose.ROTATE_270),
    }[orientation]
    exif = turned.getexif()
    exif[0x0112] = orientation
    opened = sent(attach(saved(tmp_path, turned, name, exif=exif.tobytes(), quality=95))).convert("RGB")
    assert opened.size == (60, 40)
    assert near(opened.getpixel((15, 20)), RED) and near(opened.getpixel((45, 20)), BLUE)
    assert near(opened.getpixel((1, 1)), (255, 255, 255)), "not mirrored either"


def test_damaged_exif_is_no_reason_to_refuse_nor_to_write_to_the_terminal(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
):
    path = saved(tmp_path, picture(), "a.jpg", exif=b"Exif\x00\x00MM\x00\x2a\xff\xff\xff\xffgarbage")
    image = attach(path)
    assert not recwarn.list
    sent(image)


def test_cmyk(tmp_path: Path):
    opened = sent(attach(saved(tmp_path, picture(mode="CMYK"), "print.jpg", quality=95)))
    assert opened.mode == "RGB" and near(opened.getpixel((15, 20)), RED) and near(opened.getpixel((45, 20)), BLUE)


def test_16_bits_of_grey(tmp_path: Path):
    deep = Pillow.new("I;16", (40, 40), 40_000)
    opened = sent(attach(saved(tmp_path, deep, "scan.png")))
    assert opened.mode == "L" and opened.getpixel((5, 5)) == 40_000 // 256


def test_16_bits_of_colour(tmp_path: Path):
    row = b"\x00" + struct.pack(">HHH", 0xFF00, 0x8000, 0x0100) * 8
    path = tmp_path / "deep.png"
    path.write_bytes(png((8, 8, 16, 2), zlib.compress(row * 8)))
    opened = sent(attach(path))
    assert opened.mode == "RGB" and near(opened.getpixel((3, 3)), (0xFF, 0x80, 0x01))
    assert data_of(attach(path))[24] == 8


def png(header: tuple[int, int, int, int], pixels: bytes) -> bytes:
    """Return a PNG by hand: width, height, bits, color type."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", *header, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def test_of_what_moves_the_first_frame_is_sent(tmp_path: Path):
    frames = [Pillow.new("RGB", (50, 50), RED), Pillow.new("RGB", (50, 50), BLUE)]
    for name in ("a.gif", "a.webp", "a.png"):
        path = saved(tmp_path, frames[0], name, save_all=True, append_images=frames[1:], duration=100)
        assert getattr(Pillow.open(path), "is_animated", False)
        opened = sent(attach(path))
        assert not getattr(opened, "is_animated", False)
        assert near(opened.convert("RGB").getpixel((25, 25)), RED)


def test_gifs_keep_what_is_transparent(tmp_path: Path):
    clear = Pillow.new("RGBA", (20, 20), (0, 0, 0, 0))
    clear.paste((250, 10, 10, 255), (0, 0, 10, 20))
    image = attach(saved(tmp_path, clear, "a.gif"))
    opened = sent(image)
    assert image.media_type == PNG and opened.mode == "RGBA"
    assert opened.getpixel((5, 5)) == (250, 10, 10, 255) and opened.getpixel((15, 5))[3] == 0  # pyright: ignore


# -- what is refused ----------------------------------------------------------------------------------------------


def refusal(path: Path) -> str:
    with pytest.raises(Rejected) as caught:
        attach(path)
    assert caught.value.what.endswith(".") and caught.value.remedy.endswith(".")
    return caught.value.what


def test_too_large_a_file_is_not_decoded(tmp_path: Path):
    path = saved(tmp_path, picture(), "a.png")
    with path.open("r+b") as file:
        file.truncate(MAX_PICTURE_FILE_BYTES + 1)
    assert "larger than 50 MB" in refusal(path)


@pytest.mark.parametrize(
    "data", [b"", b"plain text", b"%PDF-1.7", b"BM" + bytes(60), b"II*\0" + bytes(60), b"<svg/>", b"GIF90a"]
)
def test_what_is_no_image_is_left_for_another_reader(data: bytes):
    file = io.BytesIO(data)
    assert read_picture(file, "a.png") is None and file.tell() == 0


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.webp", "a.gif"])
@pytest.mark.parametrize("long", [False, True])
def test_truncated_file(tmp_path: Path, name: str, long: bool):
    whole = saved(tmp_path, noise(1600 if long else 200, 200), name).read_bytes()
    path = tmp_path / name
    for part in (0.02, 0.3, 0.9):
        path.write_bytes(whole[: int(len(whole) * part)])
        assert "is damaged or incomplete" in refusal(path)


def test_flipped_bit_in_a_png(tmp_path: Path):
    path = saved(tmp_path, noise(100, 100), "a.png")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)
    assert "is damaged or incomplete" in refusal(path)


def test_bomb_is_not_decoded(tmp_path: Path):
    path = tmp_path / "bomb.png"
    path.write_bytes(png((60_000, 60_000, 1, 0), zlib.compress(bytes(1000))))
    assert refusal(path) == f"{path} has 60,000 × 60,000 pixels, and 100 million is the limit."
    frame = struct.pack("<BHHHHB", 0x2C, 0, 0, 60_000, 60_000, 0) + b"\x02\x02\x4c\x01\x00;"
    path.write_bytes(b"GIF89a" + struct.pack("<HHBBB", 1, 1, 0x80, 0, 0) + bytes(6) + frame)
    assert "60,000 × 60,000 pixels" in refusal(path), "the frame counts, not what the head says"
    texts = PngImagePlugin.PngInfo()
    texts.add_text("bomb", "A" * 100_000_000, zip=True)
    assert "is damaged" in refusal(saved(tmp_path, picture(), "text.png", pnginfo=texts))


@pytest.mark.parametrize("head", [b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0", b"RIFF\x10\0\0\0WEBPVP8 ", b"GIF89a"])
def test_only_a_head_and_then_rubbish(tmp_path: Path, head: bytes):
    path = tmp_path / "a.png"
    for seed in range(30):
        path.write_bytes(head + Random(seed).randbytes(200))
        said = refusal(path)
        assert "damaged" in said or "million is the limit" in said


def test_pillow_is_imported_only_for_an_image(tmp_path: Path):
    saved(tmp_path, picture(), "cat.png")
    code = (
        "import io, sys; from ikigai.images import read_picture; read_picture(io.BytesIO(b'words'), 'notes.txt');"
        "assert not any(name.split('.')[0] == 'PIL' for name in sys.modules);"
        "read_picture(open('cat.png', 'rb'), 'cat.png'); assert 'PIL' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=tmp_path)


def test_all_kinds_are_recognised_by_16_bytes(tmp_path: Path):
    for name, kind in (("a.png", PNG), ("a.jpg", JPEG), ("a.webp", WEBP), ("a.gif", GIF)):
        assert media_type_of(saved(tmp_path, picture(), name).read_bytes()[:16]) == kind
