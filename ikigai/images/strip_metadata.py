"""Strip image files of metadata: the pixels stay byte for byte, place and author go.

Chunks that a decoder needs are kept by name. Everything else is dropped, also unknown chunks, and all behind the end:
phones hide films there, editors cropped parts. Formats: PNG (W3C, third edition), JPEG (ITU T.81, annex B), WebP (RFC
9649).
"""

import re
import struct
from collections.abc import Iterator

from ikigai.images.picture_files import JPEG, PNG, WEBP

_PNG_KEPT = frozenset(b"IHDR PLTE IDAT IEND tRNS gAMA cHRM sRGB iCCP cICP mDCV cLLI sBIT bKGD pHYs".split())
_WEBP_KEPT = frozenset((b"VP8 ", b"VP8L", b"VP8X", b"ALPH", b"ICCP"))
_WEBP_EXIF_XMP = 0x08 | 0x04
"""Flags in VP8X: chunks that are gone must not be announced."""
_END, SCAN = 0xD9, 0xDA
_ALONE = (0x01, *range(0xD0, 0xD8))
"""JPEG markers without a segment."""
_MARKER = re.compile(rb"\xff+[^\x00\xd0-\xd7\xff]", re.DOTALL)
"""The end of the coded pixels of a scan: in them 0xFF is followed by 0x00 or by a restart marker."""


def strip_metadata(data: bytes, media_type: str) -> bytes:
    """Return the file of a PNG, JPEG or WebP without metadata. Raise ValueError for a damaged file."""
    try:
        return {PNG: _png, JPEG: _jpeg, WEBP: _webp}[media_type](data)
    except (struct.error, IndexError):
        raise ValueError("the file ends too early") from None


def _png(data: bytes) -> bytes:
    kept, at = [data[:8]], 8
    while True:
        length, name = struct.unpack_from(">I4s", data, at)
        end = at + 12 + length
        if end > len(data):
            raise ValueError("the file ends too early")
        if name in _PNG_KEPT:
            kept.append(data[at:end])
        if name == b"IEND":
            return b"".join(kept)
        at = end


def _jpeg(data: bytes) -> bytes:
    return data[:2] + b"".join(each for marker, each in jpeg_segments(data) if _keeps_segment(marker, each[2:16]))


def jpeg_segments(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the marker and the bytes of each segment, a scan's with its pixels. Raise ValueError, IndexError and
    struct.error where the file is damaged.
    """
    at = 2
    while True:
        if data[at] != 0xFF:
            raise ValueError("there is no marker where one should be")
        while data[at + 1] == 0xFF:  # fill bytes
            at += 1
        marker = data[at + 1]
        if marker == _END:
            yield marker, data[at : at + 2]
            return
        if marker in _ALONE:
            end = at + 2
        else:
            end = at + 2 + int(struct.unpack_from(">H", data, at + 2)[0])
            if marker == SCAN:
                found = _MARKER.search(data, end)
                if found is None:
                    raise ValueError("the file ends too early")
                end = found.start()
        if end <= at or end > len(data):
            raise ValueError("a segment has an impossible length")
        yield marker, data[at:end]
        at = end


def _keeps_segment(marker: int, head: bytes) -> bool:
    """Return True for these application segments: JFIF without a thumbnail, color profiles, and the color coding
    (Adobe).
    """
    match marker:
        case 0xE0:
            return head.startswith(b"\x00\x10JFIF\x00")
        case 0xE2:
            return head[2:] == b"ICC_PROFILE\x00"
        case 0xEE:
            return head[2:7] == b"Adobe"
        case _:
            return not (0xE0 <= marker <= 0xEF or marker == 0xFE)


def _webp(data: bytes) -> bytes:
    kept, at = [b"WEBP"], 12
    whole = 8 + int(struct.unpack_from("<I", data, 4)[0])
    if whole > len(data) + 1:  # some writers leave the last padding out
        raise ValueError("the file ends too early")
    while at + 8 <= min(whole, len(data)):
        name, length = struct.unpack_from("<4sI", data, at)
        chunk = data[at + 8 : at + 8 + length]
        if len(chunk) < length:
            raise ValueError("the file ends too early")
        if name == b"VP8X":
            chunk = bytes((chunk[0] & ~_WEBP_EXIF_XMP, *chunk[1:]))
        if name in _WEBP_KEPT:
            kept.append(struct.pack("<4sI", name, length) + chunk + b"\x00" * (length & 1))
        at += 8 + length + (length & 1)
    body = b"".join(kept)
    return struct.pack("<4sI", b"RIFF", len(body)) + body
