"""What is typed behind commands, read: ids, models with their levels, numbers of tokens."""

import re

from ikigai.core.errors import Refused
from ikigai.core.events import Choices
from ikigai.core.state.inputs import Wanted


def wanted(text: str) -> tuple[Wanted, ...]:
    """What ids mean: parts N, N-M or "last N", divided by commas; () when any part is none of these. Raises Refused."""
    found: list[Wanted] = []
    for part in text.split(","):
        match = re.fullmatch(r"(?:(?P<first>\d+)(?:\s*[-–]\s*(?P<last>\d+))?|last\s+(?P<back>\d+))", part.strip())
        if match is None:
            return ()
        first, back = int(match["first"] or 0), int(match["back"] or 0)
        last = int(match["last"] or first)
        if max(first, last, back) > MOST or (match["back"] and not back) or first > last:
            raise Refused(f"{part.strip()!r} names nothing.", "Write ids as 45-67, 70, or last 3 for turns.")
        found.append(Wanted(back=back) if back else Wanted(first, last))
    return tuple(found)


MOST = 2**63 - 2
"""More than any id."""


def is_id(text: str) -> bool:
    """Whether this can be the id of an event."""
    return text.isascii() and text.isdecimal() and 0 < int(text) <= MOST


def model_choice(text: str) -> Choices:
    """PROVIDER/NAME[:LEVEL] as settings. Raises Refused when it is neither that nor "default"."""
    if text == "default":
        return {"model": None, "level": None}
    provider, slash, name = text.partition("/")
    if not (provider and slash and name) or any(character.isspace() for character in text):
        meant = next((name for start, name in NAMED_LIKE.items() if text.startswith(start) and text.isprintable()), "")
        meant = f"{meant}/{text}" if meant and not any(map(str.isspace, text)) and not slash else ""
        how = f"Did you mean {meant}?" if meant else "Write PROVIDER/NAME, for example openai/gpt-5-mini."
        raise Refused(f"{text!r} is no model.", how)
    bare, colon, level = name.rpartition(":")
    if bare and colon and level in LEVELS:
        return {"model": f"{provider}/{bare}", "level": level}
    return {"model": text}


NAMED_LIKE = {"gpt-": "openai", "o1": "openai", "o3": "openai", "o4": "openai", "claude-": "anthropic"} | {
    "gemini-": "google"
}
"""How names of models begin, and the vendor who sells them."""

LEVELS = ("off", "min", "low", "med", "high")


def budget(text: str) -> int | None:
    """A number of tokens as typed: 200000, 200k, 1.5M; 0 for off; "default" for None. Raises Refused."""
    if text == "default":
        return None
    found = re.fullmatch(r"([0-9]{1,10})(?:\.([0-9]{1,6}))?([kKmM]?)", text)
    if found:
        whole, fraction, unit = found[1], found[2] or "", UNITS[found[3].lower()]
        tokens, rest = divmod(int(whole + fraction) * unit, 10 ** len(fraction))
        if not rest and tokens <= 1_000_000_000:
            return tokens
    raise Refused(f"{text!r} is no budget.", "Write whole tokens, up to 1000M, for example 100k; 0 is off.")


UNITS = {"": 1, "k": 1000, "m": 1_000_000}
