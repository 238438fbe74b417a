"""Which targets a link may hide behind its words (OSC 8), and whether the words are honest about them.

A model's text is foreign: a target is only made a link when nothing in it can be misread, and where the words look like
an address the target is shown beside them, unless it is that address. What is no link is shown with its target.
"""

import re
import zlib

LONGEST = 2000
"""Characters of a target; VTE takes 2,083."""
_WEB = re.compile(
    r"https?://(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*\.?|\[[0-9a-f:.]+\])"
    r"(?::\d{1,5})?(?:[/?#][!-\[\]-~]*)?\Z",  # printable ASCII without \, which browsers take for /
    re.IGNORECASE,
)
_MAIL = re.compile(r"mailto:[a-z0-9._+-]+@[a-z0-9-]+(?:\.[a-z0-9-]+)*\Z", re.IGNORECASE)
_ADDRESS = re.compile(r"@|//|\w:\w|\bwww\b|\w[.。．｡․‧·][^\W\d]|\d+\.\d+\.\d", re.IGNORECASE)
"""In words that look as if they were an address: what parts its parts, also what only looks like a full stop."""
_SCHEME = re.compile(r"\A(?:https?://|mailto:)", re.IGNORECASE)


def safe(target: str) -> bool:
    """Whether the target can be made a link: http, https or mailto, in plain ASCII, without a user's name before the
    host, a mail's headers, or anything that programs read in different ways.
    """
    return len(target) <= LONGEST and bool(_WEB.match(target) or _MAIL.match(target))


def honest(words: str, target: str) -> bool:
    """Whether the words of a link leave nothing to be told about its target.

    Words that are no address may stand for any target, but a host in punycode, which browsers show as other letters.
    """
    said = words.strip()
    if said.removesuffix("/") in (target.removesuffix("/"), _SCHEME.sub("", target).removesuffix("/")):
        return True
    return bool(said) and not _ADDRESS.search(said) and "xn--" not in target.lower()


def link(text: str, target: str) -> str:
    """`text`, drawn, as a link to a `safe` target. Its rows on the screen belong together by an id."""
    return f"\x1b]8;id={zlib.crc32(target.encode()):08x};{target}\x1b\\{text}\x1b]8;;\x1b\\"
