"""Limit the pixels of a picture, so that its decoder takes no more than 300 MB with all of the program.

file                             bytes that its decoder holds for each pixel
PNG, 8 bits, not interlaced      none: it is decoded in strips
other PNG, GIF                   1 to 4, as Pillow has them in memory
JPEG in one scan                 none: it is decoded at a scale
JPEG in several (progressive)    2 of each component, fewer where colors are coarser: 3 to 8
WebP                             23: several canvases of Pillow's decoder, and the picture
"""

import struct
from typing import TYPE_CHECKING

from ikigai.images.picture_files import JPEG, PNG, WEBP
from ikigai.images.strip_metadata import SCAN, jpeg_segments

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

MAX_OPENED_PIXELS = 100_000_000
"""Most pixels of a file that is opened at all: a file of a few kilobytes can claim more."""
DECODER_BYTES = 200_000_000
WEBP_PIXELS = 10_000_000
_BYTES_PER_PIXEL = {"1": 1, "L": 1, "P": 1, "I;16": 2}
_MAX_BYTES_PER_PIXEL = 8.0
"""Bytes for each pixel of a JPEG of unknown parts: four components in full."""


def most_pixels(picture: "Picture", data: bytes, kind: str) -> int:
    """Return the most pixels for a file like this one, which `data` is and Pillow has opened as `picture`."""
    if kind == WEBP:
        return WEBP_PIXELS
    if kind == JPEG:
        held = held_by_scans(data)
    else:
        held = 0 if kind == PNG and is_streamed(data) else _BYTES_PER_PIXEL.get(picture.mode, 4)
    return min(MAX_OPENED_PIXELS, int(DECODER_BYTES / held)) if held else MAX_OPENED_PIXELS


def is_streamed(png: bytes) -> bool:
    """Return True if a PNG can be decoded strip by strip: 8 bits a sample at most, not interlaced."""
    depth, interlaced = struct.unpack_from(">B3xB", png, 24)
    return depth == 8 and not interlaced


def held_by_scans(jpeg: bytes) -> float:
    """Return the bytes of each pixel that are kept until the last scan has been read; 0 where the first one is all."""
    frame, is_progressive = b"", False
    try:
        for marker, segment in jpeg_segments(jpeg):
            if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
                frame, is_progressive = segment, marker in (0xC2, 0xC6, 0xCA, 0xCE)
            if marker == SCAN:
                samplings = [(each >> 4) * (each & 15) for each in frame[11 : 11 + 3 * frame[9] : 3]]
                is_several = is_progressive or segment[4] < len(samplings)
                return 2 * sum(samplings) / max(samplings) if is_several else 0
    except (ValueError, IndexError, ZeroDivisionError, struct.error):
        pass
    return _MAX_BYTES_PER_PIXEL
