"""What a command means with what is typed behind it, and the line for such a meaning."""

from collections.abc import Callable
from typing import TypeAlias

from ikigai.core.commands.arguments import LEVELS, budget, is_id, model_choice, wanted
from ikigai.core.errors import Refused
from ikigai.core.record import Record
from ikigai.core.request.pins import PREFIX
from ikigai.core.state import inputs


class Local(Record, frozen=True):
    """A command for the program rather than the agent: `name` without the slash, `argument` as typed, stripped."""

    name: str
    argument: str = ""


Meaning: TypeAlias = inputs.Command | Local


def local(name: str) -> Callable[[str], Meaning]:
    return lambda argument: Local(name, argument)


def asked(name: str, question: str) -> Callable[[str], Meaning]:
    def parse(argument: str) -> Meaning:
        if not argument:
            raise Refused(question, f"Write it behind /{name}.")
        return Local(name, argument)

    return parse


def bare(name: str, meaning: Meaning) -> Callable[[str], Meaning]:
    def parse(argument: str) -> Meaning:
        if argument:
            raise Refused(f"/{name} takes no argument.", f"Type /{name} alone.")
        return meaning

    return parse


def cost(argument: str) -> Meaning:
    if argument and argument.split(maxsplit=1)[0] != "--plot":
        raise Refused("/cost takes nothing but --plot.", "Write /cost, /cost --plot, or /cost --plot FILE.png.")
    return Local("cost", argument)


def mark(argument: str) -> Meaning:
    if len(argument) > 80:
        raise Refused("A label has 80 characters at most.", "Use a shorter one.")
    return inputs.SetMark(argument)


def rewind(argument: str) -> Meaning:
    return inputs.RewindTo(argument)


def filtering(mode: str) -> Callable[[str], Meaning]:
    """/forget and /remember: ids of messages where every part is one, else criteria in words for the model."""

    def parse(argument: str) -> Meaning:
        if not argument:
            what = "criteria in words, or ids: 45-67, 70, last 3" if mode == "forget" else "criteria in words"
            raise Refused(f"What to {mode}?", f"Give {what}.")
        named = wanted(argument)
        if named and mode == "forget":
            return inputs.Forget(named, argument)
        return inputs.Plan(mode, argument)

    return parse


def send(argument: str) -> Meaning:
    name, _, text = argument.partition(" ")
    if not (name and unquoted(text)):
        raise Refused("What to whom?", 'Write /send NAME "text".')
    return Local("send", f"{name} {unquoted(text)}")


def unquoted(text: str) -> str:
    """What is typed, without the quotes around all of it."""
    text = text.strip()
    return text[1:-1].strip() if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def undo(argument: str) -> Meaning:
    if argument and not is_id(argument):
        raise Refused(f"{argument!r} is no id of an event.", "/undo alone takes back the newest; or give its id.")
    return inputs.Undo(int(argument or 0))


def model(argument: str) -> Meaning:
    # Without a level: the program leaves that out where the agent's own one fits the new model.
    return inputs.Change({"level": "", **model_choice(argument)}) if argument else Local("model")


def system(argument: str) -> Meaning:
    if not argument:
        return Local("system")
    return inputs.Change({"system": None if argument == "default" else argument})


def search(argument: str) -> Meaning:
    if not argument:
        raise Refused("There is nothing to search for.", '/search words, /search "a phrase", /search #ID')
    return Local("search", argument)


def condense(argument: str) -> Meaning:
    return inputs.Condense(argument)


def think(argument: str) -> Meaning:
    if not argument:
        return Local("think")
    if argument != "default" and argument not in LEVELS:
        raise Refused(
            f"{argument!r} is no thinking level.", f"Levels are {', '.join(LEVELS)}; 'default' takes it back."
        )
    return inputs.Change({"level": None if argument == "default" else argument})


def profile(argument: str) -> Meaning:
    if not argument:
        return Local("profile")
    return inputs.Change({"profile": None if argument == "default" else argument})


def set_budget(argument: str) -> Meaning:
    return inputs.Change({"budget": budget(argument)}) if argument else Local("context")


TYPED = ("profile", "model", "system", "budget", "level", "approval", "tools_off")
"""Settings that commands change."""


def typed(meaning: inputs.Command) -> str:
    """The line that a command comes from, more or less."""
    match meaning:
        case inputs.Clear():
            return "/clear"
        case inputs.SetMark(label):
            return f"/mark {label}".rstrip()
        case inputs.RewindTo(label):
            return f"/rewind {label}".rstrip()
        case inputs.RewindAt(to):
            return f"/rewind {to}"
        case inputs.Forget(_, criteria) | inputs.Filter(criteria=criteria):
            return f"/forget {criteria}"
        case inputs.Plan(mode, criteria):
            return f"/{mode} {criteria}"
        case inputs.Condense(focus):
            return f"/condense {focus}".rstrip()
        case inputs.Quote(text):
            return text
        case inputs.Undo(id):
            return f"/undo {id or ''}".rstrip()
        case inputs.Retry():
            return "/retry"
        case inputs.Edit():
            return "/edit"
        case inputs.Change(values):
            key = next(iter(key for key in TYPED if key in values), "")
            if pins := [name for name in values if name.startswith(PREFIX)]:
                return f"/{'un' * (values[pins[0]] is None)}pin {pins[0].removeprefix(PREFIX)}"
            name = {"level": "think", "approval": "approve"}.get(key, key)
            if key == "tools_off":
                return f"/tools off {values[key]}"
            return f"/{name} {'default' if values.get(key) is None else values[key]}"
