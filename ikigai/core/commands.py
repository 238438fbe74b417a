"""The commands a user can type: one table with their arguments, help and meaning."""

import difflib
import re
from collections.abc import Callable
from typing import TypeAlias

from ikigai.core import inputs
from ikigai.core.errors import Refused
from ikigai.core.events import Choices
from ikigai.core.pins import PREFIX
from ikigai.core.record import Record
from ikigai.core.selecting import Wanted


class Local(Record, frozen=True):
    """A command for the program rather than the agent: `name` without the slash, `argument` as typed, stripped."""

    name: str
    argument: str = ""


Meaning: TypeAlias = inputs.Command | Local


class Command(Record, frozen=True):
    """One line of the table. `completes` names what its argument can be: marks, acts, models, agents, dead, commands.

    `more` is what only the help of this command says.
    """

    name: str
    argument: str
    help: str
    meaning: Callable[[str], Meaning]
    completes: str = ""
    aliases: tuple[str, ...] = ()
    more: str = ""


def _local(name: str) -> Callable[[str], Meaning]:
    return lambda argument: Local(name, argument)


def _asked(name: str, question: str) -> Callable[[str], Meaning]:
    def parse(argument: str) -> Meaning:
        if not argument:
            raise Refused(question, f"Write it behind /{name}.")
        return Local(name, argument)

    return parse


def _bare(name: str, meaning: Meaning) -> Callable[[str], Meaning]:
    def parse(argument: str) -> Meaning:
        if argument:
            raise Refused(f"/{name} takes no argument.", f"Type /{name} alone.")
        return meaning

    return parse


def _mark(argument: str) -> Meaning:
    if len(argument) > 80:
        raise Refused("A label has 80 characters at most.", "Use a shorter one.")
    return inputs.SetMark(argument)


def _rewind(argument: str) -> Meaning:
    return inputs.RewindTo(argument)


def _filter(mode: str) -> Callable[[str], Meaning]:
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


def _send(argument: str) -> Meaning:
    name, _, text = argument.partition(" ")
    if not (name and unquoted(text)):
        raise Refused("What to whom?", 'Write /send NAME "text".')
    return Local("send", f"{name} {unquoted(text)}")


def unquoted(text: str) -> str:
    """What is typed, without the quotes around all of it."""
    text = text.strip()
    return text[1:-1].strip() if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _undo(argument: str) -> Meaning:
    if argument and not is_id(argument):
        raise Refused(f"{argument!r} is no id of an event.", "/undo alone takes back the newest; or give its id.")
    return inputs.Undo(int(argument or 0))


def _model(argument: str) -> Meaning:
    # Without a level: the program leaves that out where the agent's own one fits the new model.
    return inputs.Change({"level": "", **model_choice(argument)}) if argument else Local("model")


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


def _system(argument: str) -> Meaning:
    if not argument:
        return Local("system")
    return inputs.Change({"system": None if argument == "default" else argument})


def _search(argument: str) -> Meaning:
    if not argument:
        raise Refused("There is nothing to search for.", '/search words, /search "a phrase", /search #ID')
    return Local("search", argument)


def _condense(argument: str) -> Meaning:
    return inputs.Condense(argument)


_SUMMARY = Local("summary")


def _think(argument: str) -> Meaning:
    if not argument:
        return Local("think")
    if argument != "default" and argument not in LEVELS:
        raise Refused(
            f"{argument!r} is no thinking level.", f"Levels are {', '.join(LEVELS)}; 'default' takes it back."
        )
    return inputs.Change({"level": None if argument == "default" else argument})


def _profile(argument: str) -> Meaning:
    if not argument:
        return Local("profile")
    return inputs.Change({"profile": None if argument == "default" else argument})


def _budget(argument: str) -> Meaning:
    return inputs.Change({"budget": budget(argument)}) if argument else Local("context")


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


COMMANDS: tuple[Command, ...] = (
    Command("help", "[command]", "what can be typed here", _local("help"), "commands"),
    Command("clear", "", "start with an empty context; the history stays", _bare("clear", inputs.Clear())),
    Command("mark", "[label]", "remember this place", _mark),
    Command(
        "rewind",
        "[label|ID]",
        "go back to the newest mark, the one named, or the turn of an event",
        _rewind,
        "marks",
        more="What came after leaves the context and stays in the history. The turn that the event belongs to stays.",
    ),
    Command(
        "undo",
        "[ID]",
        "take back the newest clear, rewind, forget or summary",
        _undo,
        "acts",
        more="Again goes further back. With the id of an undo it does what that one took back once more.",
    ),
    Command("retry", "", "take back the newest turn and send its message again", _bare("retry", inputs.Retry())),
    Command("edit", "", "take back the newest turn and edit its message", _bare("edit", inputs.Edit())),
    Command(
        "forget",
        "CRITERIA|IDS",
        "forget messages: by meaning, or by ids (45-67, 70, last 3)",
        _filter("forget"),
        more="The model looks for what matches; with ids no model is asked. You see what was found and confirm.",
    ),
    Command(
        "remember",
        "CRITERIA",
        "keep only the messages that match, and forget all else",
        _filter("remember"),
        more="The model looks for what matches. You see what was found and confirm.",
    ),
    Command(
        "model",
        "[PROVIDER/NAME[:LEVEL]]",
        "show or choose the model; 'default' takes it back",
        _model,
        "models",
        more="The thinking level that you chose stays if the new model has it; else the model's own default holds.",
    ),
    Command("think", "[LEVEL]", "show or choose how much the model thinks: off, min, low, med, high", _think, "levels"),
    Command("system", "[text]", "show or set the system prompt; 'default' takes it back", _system),
    Command(
        "profile",
        "[NAME]",
        "show the profiles, or choose one; 'default' takes it back",
        _profile,
        "profiles",
        more="What you have chosen yourself (/model, /budget …) stays as you chose it.",
    ),
    Command(
        "pin",
        "[PATH]",
        "let a file join the system prompt as it is now; show what has",
        _local("pin"),
        "files",
        more="/pin --refresh [PATH] takes files as they are now, /unpin PATH takes one away; /clear keeps all.",
    ),
    Command("unpin", "PATH", "take a pinned file out of the system prompt", _asked("unpin", "Which file?"), "pins"),
    Command("budget", "[tokens]", "show or set the sliding budget, for example 200k; 0 is off", _budget),
    Command(
        "condense",
        "[FOCUS]",
        "have a model summarise the oldest turns; again stops it",
        _condense,
        more="FOCUS is what to keep in mind above all. It happens in the background; the newest two turns stay as they"
        ' are. /summary shows it, /undo takes it back. condense = "auto" under [context] does it by itself.',
    ),
    Command("summary", "", "the summary in the context, and those of what was cleared", _bare("summary", _SUMMARY)),
    Command("history", "", "look through everything that was said (Ctrl+T)", _bare("history", Local("history"))),
    Command("context", "", "what is in the window, by part, and what is out of it", _bare("context", Local("context"))),
    Command(
        "search",
        "QUERY | #ID",
        "find words in everything ever said; #ID shows an event",
        _search,
        more='Words are found where a word begins, *parts* anywhere, "phrases" as they are; case and accents do not'
        " matter. Every hit holds all of them. The newest come first; `ikigai history search` can do more.",
    ),
    Command(
        "recall",
        "QUESTION",
        "answer from everything ever said, with its sources",
        _asked("recall", "What do you want to know?"),
        more="Forgotten text is found, too, and does not come back into the context.",
    ),
    Command("quote", "ID", "bring a message back into the conversation", _asked("quote", "Which message?")),
    Command(
        "approve",
        "[MODE|revoke N]",
        "how much models may do without asking; what was approved for always",
        _local("approve"),
        "modes",
        more="Modes: ask, edits, auto, read-only, yolo; 'default' takes the choice back. Shift+Tab goes through them.",
    ),
    Command("tools", "[on|off SET]", "what models can do here; switch it on and off", _local("tools")),
    Command(
        "trust",
        "[yes|no [FOLDER]]",
        "whether this folder's AGENTS.md, tools and settings are used",
        _local("trust"),
        more="Alone it lists the folders that are trusted, each for itself alone. Without a FOLDER, this one is meant.",
    ),
    Command(
        "export",
        "FILE [FROM-TO]",
        "write what was said to a file: .md, .html, .json or .jsonl",
        _asked("export", "Where to?"),
        more="All of it, ancestors' too, or the events from one id to another. --force before FILE replaces a file that"
        " is there. `ikigai history import` makes an agent of a .json or .jsonl file.",
    ),
    Command("cost", "", "tokens and cost: this session, this agent, everything", _bare("cost", Local("cost"))),
    Command("status", "", "agent, model, context, database", _local("status")),
    Command("config", "", "every setting, its value and where it comes from", _local("config")),
    Command("new", "[name]", "begin a fresh agent and go there", _local("new")),
    Command(
        "fork",
        '[at ID] ["prompt"]',
        "go on in a child that shares the past, at once with a prompt",
        _local("fork"),
        more="Options, in front of the prompt: --model PROVIDER/NAME[:LEVEL], --name NAME. `at ID` forks at the end of"
        " the turn of any event, of other agents too, as memory was then. A busy agent is forked before its open turn"
        " and goes on. Settings go with the child, marks do not; what either does later is its own.",
    ),
    Command(
        "agents",
        "[--all]",
        "the tree of agents: state, model, last words, who holds it",
        _local("agents"),
        more="--all shows the dead, too. `ikigai agents` can do more.",
    ),
    Command(
        "switch",
        "NAME",
        "go to another agent; this one goes on in the background",
        _local("switch"),
        "agents",
        more="Alt+Up goes to the parent, Alt+Down to the newest child, Alt+Left and Alt+Right to siblings. What is in"
        " the input stays with its agent.",
    ),
    Command(
        "send",
        'NAME "text"',
        "send a message to another agent, and stay here",
        _send,
        "agents",
        more="It is your own word to that agent, which begins a turn with it at once, or when its turn has ended. One"
        " that another program holds gets it there.",
    ),
    Command(
        "answer",
        "[NAME]",
        "answer what an agent in the background asks",
        _local("answer"),
        "agents",
        more="The status line says who asks. The question is shown with the agent's name; /switch NAME goes there.",
    ),
    Command("rename", "[OLD] NEW", "give this agent, or another, a new name", _local("rename"), "agents"),
    Command(
        "kill",
        "[NAME]",
        "put an agent and its children out of use",
        _local("kill"),
        "agents",
        more="You are asked first. Running work is cancelled; the history stays and can be searched. A root cannot be"
        " killed. /agents --all shows the dead, /revive brings one back.",
    ),
    Command("revive", "NAME", "bring a killed agent back", _asked("revive", "Which agent?"), "dead"),
    Command(
        "takeover",
        "",
        "go on with the agent that is followed, when its program has gone",
        _bare("takeover", Local("takeover")),
        more="A reply that was under way ends as interrupted, with the words that were saved of it.",
    ),
    Command("exit", "", "leave; the conversation stays", _bare("exit", Local("exit")), aliases=("quit",)),
)

BY_NAME = {name: command for command in COMMANDS for name in (command.name, *command.aliases)}


def parse(line: str) -> Meaning:
    """What a line that begins with a slash means. Raises Refused with the nearest names."""
    word = line.split(maxsplit=1)[0]
    name = word[1:]
    command = BY_NAME.get(name)
    if command is None:
        near = difflib.get_close_matches(name, BY_NAME, n=3)
        hint = "Did you mean " + " or ".join(f"/{found}" for found in near) + "?" if near else "/help lists them."
        raise Refused(f"There is no command /{name}.", hint)
    return command.meaning(line[len(word) :].strip())


def is_command(line: str) -> bool:
    """Whether a submitted text is a command: a slash and a letter first, and one line; those in LONG take more."""
    first = line.split(maxsplit=1)[0] if line[1:2].isalpha() else ""
    return first.startswith("/") and "/" not in first[1:] and ("\n" not in line or first in LONG)


LONG = ("/system", "/fork", "/send")

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


def help_text(name: str = "") -> str:
    """The table, or one line of it, as plain text."""
    if name:
        (command,) = _helped(name)
        also = f" (also /{', /'.join(command.aliases)})" if command.aliases else ""
        more = f"\n{command.more}" if command.more else ""
        return f"/{command.name} {command.argument}".rstrip() + f": {command.help}{also}{more}"
    width = max(len(f"/{command.name} {command.argument}") for command in COMMANDS)
    return "\n".join(f"{f'/{command.name} {command.argument}':<{width}}  {command.help}" for command in COMMANDS)


def help_figures(name: str = "") -> list[dict[str, str]]:
    """The same for programs: name, argument, help of each."""
    return [{"name": each.name, "argument": each.argument, "help": each.help} for each in _helped(name)]


def _helped(name: str) -> tuple[Command, ...]:
    if not name:
        return COMMANDS
    command = BY_NAME.get(name.removeprefix("/"))
    if command is None:
        raise Refused(f"There is no command /{name.removeprefix('/')}.", "/help lists them.")
    return (command,)
