"""Draw a large picture smaller strip by strip, so that few copies of its pixels are in memory, and of a PNG none."""

import math
import struct
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from PIL import Image as pillow
from PIL.Image import Resampling

from ikigai.images.pixel_limits import is_streamed

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

STRIP_BYTES = 4 << 20
"""Pixels of a strip, in bytes as Pillow has them in memory: four for each."""
_GRAY = ("1", "L")


def scale_picture(picture: "Picture", png: bytes, longest: int) -> "Picture":
    """Return `picture` in 8 bits, gray or RGB with or without alpha, with edges of at most `longest` pixels.

    `png` is its file if that is a PNG, else b"".
    """
    if not (streams := bool(png) and is_streamed(png)):
        picture.load()
    width, height = picture.size
    # Two steps, as Pillow's own thumbnails with their default gap: a box of pixels becomes one, then LANCZOS.
    factor = max(1, max(width, height) // (2 * longest))
    alpha = picture.has_transparency_data
    mode = "RGBA" if alpha else "L" if picture.mode in _GRAY or picture.mode.startswith("I;16") else "RGB"
    if factor == 1 and picture.mode == mode and not streams:
        small = picture
    else:
        small = pillow.new(mode, (math.ceil(width / factor), math.ceil(height / factor)))
        top, rows = 0, factor * max(1, STRIP_BYTES // (4 * width * factor))
        for strip in _decoded(picture, png, rows) if streams else _cut(picture, rows):
            if strip.mode.startswith("I;16"):
                strip = strip.point(lambda value: value / 256).convert("L")
            small.paste(strip.convert(mode).reduce(factor), (0, top // factor))
            top += strip.height
    if max(width, height) > longest:
        scale = longest / max(width, height)
        size = max(1, round(width * scale)), max(1, round(height * scale))
        small = small.resize(size, Resampling.LANCZOS, (0, 0, width / factor, height / factor))
    small.info["icc_profile"] = picture.info.get("icc_profile")
    return small


def _cut(picture: "Picture", rows: int) -> Iterator["Picture"]:
    """Cut the picture into strips of so many `rows`, from the top."""
    width, height = picture.size
    for top in range(0, height, rows):
        yield picture.crop((0, top, width, min(top + rows, height)))


def _decoded(picture: "Picture", png: bytes, rows: int) -> Iterator["Picture"]:
    """Decode the strips of a PNG one by one.

    A row is stored as its difference to the row above: each strip gets the last row of the strip before it, as it is.
    """
    mode, (width, height) = picture.mode, picture.size
    pixels = _Pixels(png)
    size = 1 + width * len(picture.getbands())
    above = bytes(size)
    for top in range(0, height, rows):
        count = min(rows, height - top)
        stored = zlib.compress(above + pixels.read(count * size), 0)
        strip = pillow.frombytes(mode, (width, count + 1), stored, "zip", mode, 0)
        above = b"\0" + strip.crop((0, count, width, count + 1)).tobytes()
        strip = strip.crop((0, 1, width, count + 1))
        strip.info = picture.info
        strip.palette = picture.palette and picture.palette.copy()  # its user writes to it
        yield strip


class _Pixels:
    """The rows of a PNG as they are stored: unpacked as far as they are read."""

    def __init__(self, png: bytes) -> None:
        self._chunks, self._unpacking = png_chunks(png, b"IDAT"), zlib.decompressobj()

    def read(self, size: int) -> bytes:
        """Return so many bytes. Raise ValueError where there are fewer, zlib.error where they are damaged."""
        found = bytearray()
        packed = self._unpacking.unconsumed_tail
        while len(found) < size:
            unpacked = self._unpacking.decompress(packed, size - len(found))
            found += unpacked
            packed = self._unpacking.unconsumed_tail
            if not unpacked and not packed and not (packed := next(self._chunks, b"")):
                raise ValueError("the file ends too early")
        return bytes(found)


def png_chunks(png: bytes, name: bytes) -> Iterator[bytes]:
    """Yield the content of the chunks of this name."""
    at = 8
    while at + 8 <= len(png):
        length, found = struct.unpack_from(">I4s", png, at)
        if found == name:
            yield png[at + 8 : at + 8 + length]
        at += 12 + length
