"""What a line of /fork asks for: where, under which name, with which model, and what to say there first."""

import re

from ikigai.core.commands.arguments import MOST, model_choice
from ikigai.core.errors import Refused
from ikigai.core.events import Choices
from ikigai.core.record import Record

HOW = '/fork [at ID] [--model M[:LEVEL]] [--name NAME] ["prompt"]'


class Fork(Record, frozen=True):
    """`at` is the id of an event, 0 for now; `choices` are settings of the child's own; "" means no name, no prompt."""

    at: int = 0
    choices: Choices = {}  # noqa: RUF012  (msgspec gives every record its own)
    name: str = ""
    prompt: str = ""


def asked(argument: str) -> Fork:
    """The argument of /fork. What no option begins is the prompt, in quotes or without. Raises Refused."""
    rest = argument.strip()
    at, found = 0, re.match(r"at\s+#?(\d+)(?=\s|$)", rest)
    if found:
        if not 0 < int(found[1]) <= MOST:
            raise Refused(f"There is no event {found[1][:20]}.", "/search shows the ids of messages.")
        at, rest = int(found[1]), rest[found.end() :].lstrip()
    elif odd := re.match(
        r"at(?:\s+(?P<one>\S+)(?=\s*$|\s+--|\s+[\"'])|\s+(?P<sign>[-#]\S*|\d+[,.;:](?=\s))|\s*$)", rest
    ):
        said = odd["one"] or odd["sign"]
        raise Refused(
            f"{said[:20]!r} is no id of an event." if said else "At what?",
            "/search shows the ids of messages. A prompt that begins so stands in quotes.",
        )
    options: dict[str, str] = {}
    while option := re.match(r"--([a-z]*)(?:[=\s]\s*|$)", rest):
        rest = rest[option.end() :]
        if not option[1]:
            break
        value = re.match(r"\S+", rest)
        if option[1] not in ("model", "name"):
            raise Refused(f"/fork has no option --{option[1]}.", f"Write {HOW}")
        if value is None:
            raise Refused(f"--{option[1]} wants a value.", f"Write {HOW}")
        options[option[1]], rest = value[0], rest[value.end() :].lstrip()
    if len(rest) > 1 and rest[0] == rest[-1] and rest[0] in "\"'":
        rest = rest[1:-1]
    choices: Choices = {"level": "", **model_choice(options["model"])} if "model" in options else {}
    return Fork(at, choices, options.get("name", ""), rest.strip())
