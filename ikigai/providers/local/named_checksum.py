"""Read from the headers of an answer how to check and to continue the file that it brings."""

import base64
import binascii
import re
from collections.abc import Mapping

HEX_SHA256 = re.compile(r"[0-9a-f]{64}")
DIGEST_ITEM = re.compile(r"\bsha-256=:?([A-Za-z0-9+/_-]{43}=?):?", re.IGNORECASE)
"""The SHA-256 of Repr-Digest and Content-Digest (RFC 9530), and of the older Digest (RFC 3230)."""
CONTENT_RANGE = re.compile(r"bytes (?:(\d{1,18})-\d{1,18}|\*)/(\d{1,18}|\*)")


def named_sha256(headers: Mapping[str, str], status: int, plain_etag: bool = False) -> str:
    """Return the SHA-256 of the whole file in hexadecimal; "" if these headers name none.

    X-Linked-ETag is the name of a file of Git LFS, which is its checksum. With `plain_etag` so is an ETag of 64
    hexadecimal digits, as on the same servers. Content-Digest is about the body, which is the file only with status
    200.
    """
    tags = [headers.get("x-linked-etag", ""), headers.get("etag", "") if plain_etag else ""]
    for tag in tags:
        bare = tag.removeprefix("W/").strip('"').lower()
        if HEX_SHA256.fullmatch(bare):
            return bare
    digests = ["repr-digest", "digest", *(["content-digest"] if status == 200 else [])]
    for name in digests:
        if (found := DIGEST_ITEM.search(headers.get(name, ""))) and (value := _hexadecimal(found[1])):
            return value
    return _hexadecimal(headers.get("x-amz-checksum-sha256", ""))


def strong_validator(headers: Mapping[str, str]) -> str:
    """Return the ETag for If-Range, which has to be a strong one; "" for none."""
    tag = headers.get("etag", "")
    return tag if re.fullmatch(r'"[^"\x00-\x20\x7f]{1,512}"', tag) else ""


def content_range(headers: Mapping[str, str]) -> tuple[int | None, int]:
    """Return the first byte of a partial answer and the size of the whole file; None and 0 where unknown."""
    found = CONTENT_RANGE.fullmatch(headers.get("content-range", "").strip())
    if not found:
        return None, 0
    return int(found[1]) if found[1] else None, int(found[2]) if found[2].isdecimal() else 0


def _hexadecimal(text: str) -> str:
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_" if re.search("[-_]", text) else None)
    except (binascii.Error, ValueError):
        return ""
    return raw.hex() if len(raw) == 32 else ""
