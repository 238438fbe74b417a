"""Parse the arguments of commands: ids, models with their levels, sizes in tokens and bytes."""

import re

from ikigai.core.errors import WrongArgument
from ikigai.core.events.events import Choices
from ikigai.core.state.inputs import EventRange
from ikigai.core.vendors import VENDORS, sellers

MAX_QUOTED = 40
"""Characters of a typed text that a message repeats."""


def quoted(text: str) -> str:
    """Return a typed text as a message repeats it: in quotes, and cut where it is long."""
    return repr(text if len(text) <= MAX_QUOTED else text[: MAX_QUOTED - 1] + "…")


def parse_ranges(text: str) -> tuple[EventRange, ...]:
    """Return the ranges that a list of ids means: parts N, N-M or "last N", divided by commas. Return () when any part
    is none of these. Raise WrongArgument for an empty range.
    """
    found: list[EventRange] = []
    for part in text.split(","):
        match = re.fullmatch(r"(?:(?P<first>\d+)(?:\s*[-–]\s*(?P<last>\d+))?|last\s+(?P<back>\d+))", part.strip())
        if match is None:
            return ()
        first, back = as_number(match["first"] or "0"), as_number(match["back"] or "0")
        last = as_number(match["last"]) if match["last"] else first
        if max(first, last, back) > MAX_EVENT_ID or (match["back"] and not back) or first > last:
            raise WrongArgument(
                f"{quoted(part.strip())} is not an id or a range.", "Write ids as 45-67, 70, or last 3 for turns."
            )
        found.append(EventRange(newest_turns=back) if back else EventRange(first, last))
    return tuple(found)


MAX_EVENT_ID = 2**63 - 2
"""The largest id that an event can have, and more than any has."""


def as_number(digits: str) -> int:
    """Return a number as typed; of more digits than any id has, the first ones. Python refuses thousands of them."""
    return int(digits[:MAX_QUOTED])


def is_id(text: str) -> bool:
    """Return True if this can be the id of an event."""
    return text.isascii() and text.isdecimal() and 0 < as_number(text) <= MAX_EVENT_ID


def parse_model(text: str) -> Choices:
    """Return the settings for PROVIDER/NAME[:LEVEL]. Raise WrongArgument for others but "default"."""
    if text == "default":
        return {"model": None, "level": None}
    provider, slash, name = text.partition("/")
    if not (provider and slash and name) or any(character.isspace() for character in text):
        if text in sellers():
            raise WrongArgument(f"{quoted(text)} is a provider, not a model.", name_a_model(text))
        is_name = text.isprintable() and not any(map(str.isspace, text)) and not slash
        vendors = (name for name, vendor in VENDORS.items() if is_name and text.startswith(vendor.model_prefixes))
        meant = next((f"{name}/{text}" for name in vendors), "")
        how = f"Did you mean {meant}?" if meant else "Write PROVIDER/NAME, for example openai/gpt-5-mini."
        raise WrongArgument(f"{quoted(text)} is not a model.", how)
    bare, colon, level = name.rpartition(":")
    if bare and colon and level in THINKING_LEVELS:
        return {"model": f"{provider}/{bare}", "level": level}
    return {"model": text}


def name_a_model(provider: str) -> str:
    """Return how to name a model of this provider, for a user who wrote the provider alone."""
    return f"Write {provider}/NAME. `ikigai models {provider}` lists its models."


THINKING_LEVELS = ("off", "min", "low", "med", "high")


def parse_budget(text: str) -> int | None:
    """Return a number of tokens as typed: 200000, 200k, 1.5M; 0 for off; None for "default". Raise
    WrongArgument for others.
    """
    if text == "default":
        return None
    tokens = parse_size(text)
    if tokens is not None and tokens <= 1_000_000_000:
        return tokens
    raise WrongArgument(
        f"{quoted(text)} is not a token count.", "Examples: 100k, 60000, at most 1000M; 0 turns it off."
    )


def parse_size(text: str) -> int | None:
    """Return a number of tokens or bytes as typed: 200000, 200k, 1.5M; None for others."""
    found = re.fullmatch(r"([0-9]{1,10})(?:\.([0-9]{1,6}))?([kKmM]?)", text)
    if not found:
        return None
    whole, fraction, unit = found[1], found[2] or "", UNIT_FACTORS[found[3].lower()]
    size, rest = divmod(int(whole + fraction) * unit, 10 ** len(fraction))
    return None if rest else size


UNIT_FACTORS = {"": 1, "k": 1000, "m": 1_000_000}
