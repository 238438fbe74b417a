"""Large pictures are drawn smaller strip by strip: to the same pixels, and in little memory."""

import io
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from random import Random
from typing import Any

import pytest
from PIL import Image as Pillow
from PIL import ImageChops, ImageStat

from ikigai.images import attach, strips
from ikigai.images.strips import scaled

MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")


def picture(mode: str, width: int, height: int) -> Pillow.Image:
    """Smooth enough that all five filters of PNG are used, and nowhere the same."""
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
    found = scaled(*opened(made), longest=90)
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
    found = scaled(source, png, longest=90)
    assert found.mode == "RGBA" and found.tobytes() == Pillow.open(io.BytesIO(png)).convert("RGBA").tobytes()
    assert min(found.getchannel("A").tobytes()) < 255


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [(1000, 770), (770, 1000), (333, 100), (2000, 60)])
def test_what_is_scaled_looks_as_pillow_scales_it(mode: str, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(strips, "STRIP_BYTES", 40_000)
    source, png = opened(picture(mode, *size))
    found = scaled(source, png, longest=100)
    whole = scaled(Pillow.open(io.BytesIO(png)), b"", longest=10_000)
    whole.thumbnail((100, 100), Pillow.Resampling.LANCZOS)
    assert found.size == whole.size and max(found.size) == 100
    assert max(ImageStat.Stat(ImageChops.difference(found, whole)).mean) < 1


def test_interlaced_picture_is_decoded_whole():
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 1)
    pixels = zlib.compress(b"\0\x01\x02\x03")
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    assert scaled(Pillow.open(io.BytesIO(png)), png, longest=9).getpixel((0, 0)) == (1, 2, 3)


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
from ikigai.images import attach
image = attach(Path(sys.argv[1]))
assert max(image.width, image.height) == 1568
(line,) = (line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(line.split()[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read in /proc")
def test_large_png_takes_little_memory(tmp_path: Path):
    """Of 9,000 × 9,000 pixels, 324 MB as they are decoded."""
    picture("RGBA", 900, 900).resize((9000, 9000), Pillow.Resampling.NEAREST).save(tmp_path / "a.png", compress_level=1)
    done = subprocess.run([sys.executable, "-c", PEAK, tmp_path / "a.png"], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 300_000
