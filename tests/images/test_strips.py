"""Large pictures are drawn smaller strip by strip: to the same pixels, and in little memory."""

import io
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from PIL import Image as Pillow
from PIL import ImageChops, ImageStat

from ikigai.core.errors import Rejected
from ikigai.images import strips
from ikigai.images.pixel_limits import held_by_scans
from ikigai.images.strips import scale_picture
from tests.images.attach import attach

MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")


def picture(mode: str, width: int, height: int) -> Pillow.Image:
    """Return a picture smooth enough that all five filters of PNG are used, and nowhere the same."""
    bands = [Pillow.radial_gradient("L").resize((width, height)).rotate(90 * turn, expand=False) for turn in range(4)]
    if mode == "I;16":
        return Pillow.frombytes(mode, (width, height), Random(1).randbytes(width * height * 2))
    if mode in ("LA", "RGB", "RGBA"):
        return Pillow.merge(mode, bands[: len(mode)])
    return bands[0].convert("RGB").convert(mode)


def opened(made: Pillow.Image, **options: Any) -> tuple[Pillow.Image, bytes]:
    file = io.BytesIO()
    made.save(file, "PNG", **options)
    return Pillow.open(file), file.getvalue()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_strips_have_the_pixels_of_the_whole(mode: str, rows: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(strips, "STRIP_BYTES", rows * 4 * 90)
    made = picture(mode, 90, 50)
    found = scale_picture(*opened(made), longest=90)
    if mode == "I;16":
        made = made.point(lambda value: value / 256).convert("L")
    assert found.mode == {"1": "L", "P": "RGB", "LA": "RGBA", "I;16": "L"}.get(mode, mode)
    assert found.tobytes() == made.convert(found.mode).tobytes()


@pytest.mark.parametrize(("mode", "is_graded"), [("P", False), ("P", True), ("L", False), ("RGB", False)])
def test_strips_keep_what_is_transparent(mode: str, is_graded: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(strips, "STRIP_BYTES", 4 * 90)
    made = picture(mode, 90, 50)
    clear: Any = bytes(range(0, 256, 2)) if is_graded else made.getpixel((45, 25))
    source, png = opened(made, transparency=clear)
    found = scale_picture(source, png, longest=90)
    assert found.mode == "RGBA" and found.tobytes() == Pillow.open(io.BytesIO(png)).convert("RGBA").tobytes()
    assert min(found.getchannel("A").tobytes()) < 255


@pytest.mark.ordinary("size0-RGB", "size1-I;16", "size2-*", "size3-*")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [(1000, 770), (770, 1000), (333, 100), (2000, 60)])
def test_what_is_scaled_looks_as_pillow_scales_it(mode: str, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(strips, "STRIP_BYTES", 40_000)
    source, png = opened(picture(mode, *size))
    found = scale_picture(source, png, longest=100)
    whole = scale_picture(Pillow.open(io.BytesIO(png)), b"", longest=10_000)
    whole.thumbnail((100, 100), Pillow.Resampling.LANCZOS)
    assert found.size == whole.size and max(found.size) == 100
    assert max(ImageStat.Stat(ImageChops.difference(found, whole)).mean) < 1


def test_interlaced_picture_is_decoded_whole():
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 1)
    pixels = zlib.compress(b"\0\x01\x02\x03")
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    assert scale_picture(Pillow.open(io.BytesIO(png)), png, longest=9).getpixel((0, 0)) == (1, 2, 3)


def test_orientation_behind_the_pixels_is_heeded(tmp_path: Path):
    made = picture("RGB", 2000, 1000)
    _, png = opened(made)
    exif = made.getexif()
    exif[0x0112] = 6
    data = exif.tobytes().removeprefix(b"Exif\0\0")
    late = struct.pack(">I", len(data)) + b"eXIf" + data + struct.pack(">I", zlib.crc32(b"eXIf" + data))
    (tmp_path / "a.png").write_bytes(png[:-12] + late + png[-12:])
    image = attach(tmp_path / "a.png")
    assert (image.width, image.height) == (784, 1568)


PEAK = """
import sys
from pathlib import Path
from tests.images.attach import attach
image = attach(Path(sys.argv[1]))
assert max(image.width, image.height) > 500
(line,) = (line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(line.split()[1])
"""


def flat(mode: str, *size: int) -> Pillow.Image:
    return picture(mode, 900, 900).resize(size, Pillow.Resampling.NEAREST)


def noise(width: int, height: int) -> Pillow.Image:
    """Return the picture that costs a lossless WebP most."""
    small = Pillow.frombytes("RGBA", (width // 4, height // 4), Random(1).randbytes(width * height // 4))
    return small.resize((width, height), Pillow.Resampling.NEAREST)


LARGE: dict[str, tuple[Callable[[], Pillow.Image], dict[str, Any]]] = {
    "strips.png": (lambda: Pillow.new("RGBA", (9000, 9000), "navy"), {"compress_level": 1}),
    "deep.png": (lambda: Pillow.frombytes("I;16", (9000, 9000), bytes(162_000_000)), {"compress_level": 1}),
    "whole.jpg": (lambda: flat("RGB", 6200, 6200), {}),
    "wide.jpg": (lambda: flat("RGB", 20_000, 5000), {}),
    "coarse.jpg": (lambda: flat("RGB", 8000, 8000), {"progressive": True, "subsampling": 2}),
    "full.jpg": (lambda: flat("RGB", 5700, 5700), {"progressive": True, "subsampling": 0}),
    "ink.jpg": (lambda: flat("RGB", 5000, 4900).convert("CMYK"), {"progressive": True}),
    "lossless.webp": (lambda: noise(4000, 2500), {"lossless": True, "method": 0, "quality": 0}),
    "lossy.webp": (lambda: flat("RGBA", 4000, 2500), {"method": 0}),
    "flat.gif": (lambda: flat("L", 9000, 9000), {}),
}
"""The largest pictures of their kinds, or nearly."""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read in /proc")
@pytest.mark.ordinary("strips.png")
@pytest.mark.parametrize("name", LARGE)
def test_large_picture_takes_little_memory(tmp_path: Path, name: str):
    made, options = LARGE[name]
    made().save(tmp_path / name, **options)
    done = subprocess.run([sys.executable, "-c", PEAK, tmp_path / name], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 300_000


@pytest.mark.parametrize(
    ("name", "size", "options", "most"),
    [
        ("a.webp", (4000, 2600), {"method": 0}, 10),
        ("a.jpg", (6000, 6000), {"progressive": True, "subsampling": 0}, 33),
    ],
)
def test_picture_that_would_take_much_memory_is_refused(
    tmp_path: Path, name: str, size: tuple[int, int], options: dict[str, Any], most: int
):
    flat("RGB", *size).save(tmp_path / name, **options)
    width, height = size
    with pytest.raises(Rejected) as refusal:
        attach(tmp_path / name)
    told = f"{width:,} × {height:,} pixels, and {most} million is the limit for a file of its kind."
    assert refusal.value.what == f"{tmp_path / name} has {told}"
    assert refusal.value.remedy == "Make it smaller first."


def test_large_interlaced_picture_is_refused(tmp_path: Path):
    head = struct.pack(">IIBBBBB", 9000, 9000, 8, 2, 0, 0, 1)
    chunks = [b"IHDR" + head, b"IDAT" + zlib.compress(bytes(9000)), b"IEND"]
    packed = (struct.pack(">I", len(each) - 4) + each + struct.pack(">I", zlib.crc32(each)) for each in chunks)
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(packed))
    with pytest.raises(Rejected, match="50 million is the limit for a file of its kind"):
        attach(tmp_path / "a.png")


def jpeg(*scans: tuple[int, ...], marker: int = 0xC0) -> bytes:
    """Return the segments of a JPEG of three components, the first one finer; each scan has some of them."""
    frame = bytes((0xFF, marker, 0, 17, 8, 0, 8, 0, 8, 3, 1, 0x22, 0, 2, 0x11, 0, 3, 0x11, 0))
    heads = (
        (0xFF, 0xDA, 0, 6 + 2 * len(scan), len(scan), *(n for each in scan for n in (each, 0)), 0, 63, 0)
        for scan in scans
    )
    return b"\xff\xd8" + frame + b"".join(map(bytes, heads)) + b"\xff\xd9"


@pytest.mark.parametrize(
    ("file", "held"),
    [
        (jpeg((1, 2, 3)), 0),
        (jpeg((1,), (2,), (3,)), 3),
        (jpeg((1, 2, 3), marker=0xC2), 3),
        (b"\xff\xd8\xff\xd9", 8),
        (b"\xff\xd8damaged", 8),
    ],
)
def test_scans_of_a_jpeg_are_counted(file: bytes, held: float):
    assert held_by_scans(file) == held
