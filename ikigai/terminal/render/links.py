"""Decide which targets a link may hide behind its words (OSC 8), and if the words are honest about them.

A model's text is foreign. A target becomes a link only when nothing in it can be misread. Where the words look like an
address the target is shown beside them, unless it is that address. A target that is not a link is always shown.
"""

import re
import zlib

MAX_TARGET_CHARACTERS = 2000
"""Characters of a target; VTE takes 2,083."""
_WEB = re.compile(
    r"https?://(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*\.?|\[[0-9a-f:.]+\])"
    r"(?::\d{1,5})?(?:[/?#][!-\[\]-~]*)?\Z",  # printable ASCII without \, which browsers take for /
    re.IGNORECASE,
)
_MAIL = re.compile(r"mailto:[a-z0-9._+-]+@[a-z0-9-]+(?:\.[a-z0-9-]+)*\Z", re.IGNORECASE)
_ADDRESS = re.compile(r"@|//|\w:\w|\bwww\b|\w[.。．｡․‧·][^\W\d]|\d+\.\d+\.\d", re.IGNORECASE)
"""The separators of addresses in words, also characters that only look like a full stop."""
_SCHEME = re.compile(r"\A(?:https?://|mailto:)", re.IGNORECASE)


def is_safe_target(target: str) -> bool:
    """Return True if the target can be made a link: http, https or mailto, in plain ASCII.

    It must have no user's name before the host, no headers of a mail, and nothing that programs read in different ways.
    """
    return len(target) <= MAX_TARGET_CHARACTERS and bool(_WEB.match(target) or _MAIL.match(target))


def is_honest_link(words: str, target: str) -> bool:
    """Return True if the words of a link need no target beside them.

    Words that are no address may stand for any target, but a host in punycode, which browsers show as other letters.
    """
    label = words.strip()
    if label.removesuffix("/") in (target.removesuffix("/"), _SCHEME.sub("", target).removesuffix("/")):
        return True
    return bool(label) and not _ADDRESS.search(label) and "xn--" not in target.lower()


def draw_link(text: str, target: str) -> str:
    """Return drawn `text` as a link to a safe target. Its rows on the screen belong together by an id."""
    return f"\x1b]8;id={zlib.crc32(target.encode()):08x};{target}\x1b\\{text}\x1b]8;;\x1b\\"
