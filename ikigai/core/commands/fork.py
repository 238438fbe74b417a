"""Parse the arguments of /fork: place, name, model, and the first prompt."""

import re

from ikigai.core.commands.arguments import MAX_EVENT_ID, MAX_QUOTED, as_number, parse_model, quoted
from ikigai.core.errors import WrongArgument
from ikigai.core.events.events import Choices
from ikigai.core.events.record import Record


class ForkRequest(Record, frozen=True):
    """The parsed arguments of /fork. `at` is the id of an event, 0 for now. `choices` are the child's own settings. ""
    means no name, no prompt.
    """

    at: int = 0
    choices: Choices = {}  # noqa: RUF012  (msgspec gives every record its own)
    name: str = ""
    prompt: str = ""


def parse_fork(argument: str) -> ForkRequest:
    """Parse the argument of /fork. The rest behind the options is the prompt, in quotes or without. Raise Rejected for
    others.
    """
    rest = argument.strip()
    at, found = 0, re.match(r"at\s+#?(\d+)(?=\s|$)", rest)
    if found:
        if not 0 < as_number(found[1]) <= MAX_EVENT_ID:
            raise WrongArgument(f"There is no event {found[1][:20]}.", "/search shows the ids of messages.")
        at, rest = int(found[1]), rest[found.end() :].lstrip()
    elif odd := re.match(
        r"at(?:\s+(?P<one>\S+)(?=\s*$|\s+--|\s+[\"'])|\s+(?P<sign>[-#]\S*|\d+[,.;:](?=\s))|\s*$)", rest
    ):
        text = odd["one"] or odd["sign"]
        raise WrongArgument(
            f"{quoted(text)} is not an event id." if text else "Add an event id after `at`.",
            "/search shows ids. Quote a prompt that begins with `at`.",
        )
    options: dict[str, str] = {}
    while option := re.match(r"--([a-z]*)(?:[=\s]\s*|$)", rest):
        rest = rest[option.end() :]
        if not option[1]:
            break
        value = re.match(r"\S+", rest)
        if option[1] not in ("model", "name"):
            raise WrongArgument(f"/fork has no option --{option[1][:MAX_QUOTED]}.")
        if value is None:
            raise WrongArgument(f"--{option[1]} needs a value.")
        options[option[1]], rest = value[0], rest[value.end() :].lstrip()
    if len(rest) > 1 and rest[0] == rest[-1] and rest[0] in "\"'":
        rest = rest[1:-1]
    choices: Choices = {"level": "", **parse_model(options["model"])} if "model" in options else {}
    return ForkRequest(at, choices, options.get("name", ""), rest.strip())
