"""Turn a command with its argument into an input or request, and back into a line."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from ikigai.core.commands.arguments import THINKING_LEVELS, is_id, parse_budget, parse_model, parse_ranges, quoted
from ikigai.core.errors import WrongArgument
from ikigai.core.events.record import Record
from ikigai.core.state import inputs


class ProgramCommand(Record, frozen=True):
    """A command for the program rather than the agent: `name` without the slash, `argument` as typed, stripped."""

    name: str
    argument: str = ""


Meaning: TypeAlias = inputs.Command | ProgramCommand


def check_cost(argument: str) -> None:
    if argument not in ("", "--plot"):
        raise WrongArgument(f"/cost does not take {quoted(argument)}.")


def check_agents(argument: str) -> None:
    if argument not in ("", "--all"):
        raise WrongArgument(f"/agents does not take {quoted(argument)}.")


def parse_mark(argument: str) -> Meaning:
    if len(argument) > 80:
        raise WrongArgument("A label has 80 characters at most.")
    return inputs.SetMark(argument)


def parse_filter(mode: str) -> Callable[[str], Meaning]:
    """Return the parser of /forget or /remember: ids of messages where every part is one, else criteria in words for
    the model.
    """

    def parse(argument: str) -> Meaning:
        if not argument:
            what = "Say what to forget." if mode == "forget" else "Say what to keep."
            raise WrongArgument(what, "IDS are 45-67, 70, last 3." * (mode == "forget"))
        named = parse_ranges(argument)
        if named and mode == "forget":
            return inputs.Forget(named, argument)
        return inputs.Plan(mode, argument)

    return parse


def parse_send(argument: str) -> Meaning:
    name, _, text = argument.partition(" ")
    if not (name and unquote(text)):
        raise WrongArgument("Add the text to send." if name else "Name the agent to send to.")
    return ProgramCommand("send", f"{name} {unquote(text)}")


def unquote(text: str) -> str:
    """Return the typed text without the quotes around all of it."""
    text = text.strip()
    return text[1:-1].strip() if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


class Rename(Record, frozen=True):
    """The arguments of rename; `old` is "" for the active agent."""

    new: str
    old: str = ""


def parse_rename(words: Sequence[str]) -> Rename:
    """Return the parsed [OLD] NEW. Raise WrongArgument for other numbers of words."""
    if not 0 < len(words) <= 2:
        raise WrongArgument("Names have no spaces." if words else "Add the new name.")
    return Rename(words[-1], "".join(words[:-1]))


def parse_one_agent(command: str, argument: str) -> str:
    """Return the name of the agent that a command is about, "" for the active one. Raise WrongArgument for several."""
    if len(argument.split()) > 1:
        raise WrongArgument(f"/{command} takes one agent at a time.")
    return argument


def check_rename(argument: str) -> None:
    parse_rename(argument.split())


def check_kill(argument: str) -> None:
    parse_one_agent("kill", argument)


def check_archive(argument: str) -> None:
    parse_one_agent("archive", argument)


def check_fork(argument: str) -> None:
    from ikigai.core.commands.fork import parse_fork

    parse_fork(argument)


def parse_undo(argument: str) -> Meaning:
    if argument and not is_id(argument):
        raise WrongArgument(f"{quoted(argument)} is not an event id.", "Use /undo for the last change, or /undo ID.")
    return inputs.Undo(int(argument or 0))


def parse_edit(argument: str) -> Meaning:
    if argument and not is_id(argument):
        raise WrongArgument(f"{quoted(argument)} is not an event id.", "Use /edit for the newest turn, or /edit ID.")
    return inputs.Edit(int(argument or 0))


def parse_model_command(argument: str) -> Meaning | None:
    # Without a level: the program leaves it out where the agent's own level fits the new model.
    return inputs.Change({"level": "", **parse_model(argument)}) if argument else None


def parse_system(argument: str) -> Meaning | None:
    if not argument:
        return None
    return inputs.Change({"system": {"default": None, '""': "", "''": ""}.get(argument, argument)})


def check_limit(argument: str) -> None:
    from ikigai.core.commands import limit  # few set a cap

    limit.parse_limit(argument)


def parse_think(argument: str) -> Meaning | None:
    if not argument:
        return None
    if argument != "default" and argument not in THINKING_LEVELS:
        raise WrongArgument(
            f"{quoted(argument)} is not a thinking level.", f"Levels: {', '.join(THINKING_LEVELS)}, default."
        )
    return inputs.Change({"level": None if argument == "default" else argument})


def parse_profile(argument: str) -> Meaning | None:
    if not argument:
        return None
    return inputs.Change({"profile": None if argument == "default" else argument})


def parse_budget_command(argument: str) -> Meaning | None:
    return inputs.Change({"budget": parse_budget(argument)}) if argument else None


TYPED_SETTINGS = ("profile", "model", "system", "budget", "level", "approval", "tools_off")
"""Settings that commands change."""


def command_line(meaning: inputs.Command) -> str:
    """Return the line that a command comes from, more or less."""
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
        case inputs.Redo():
            return "/redo"
        case inputs.Retry():
            return "/retry"
        case inputs.Edit(id):
            return f"/edit {id or ''}".rstrip()
        case inputs.Change(values):
            from ikigai.core.request.pins import PIN_PREFIX

            key = next(iter(key for key in TYPED_SETTINGS if key in values), "")
            if pins := [name for name in values if name.startswith(PIN_PREFIX)]:
                return f"/{'un' * (values[pins[0]] is None)}pin {pins[0].removeprefix(PIN_PREFIX)}"
            name = {"level": "think", "approval": "approve"}.get(key, key)
            if key == "tools_off":
                return f"/tools off {values[key]}"
            return f"/{name} {'default' if values.get(key) is None else values[key]}"
