"""The commands a user can type: one table with their arguments, help and meaning."""

from collections.abc import Callable

from ikigai.core.commands.parsers import (
    Local,
    Meaning,
    asked,
    bare,
    condense,
    cost,
    filtering,
    local,
    mark,
    model,
    profile,
    rewind,
    search,
    send,
    set_budget,
    system,
    think,
    undo,
)
from ikigai.core.errors import Refused, nearest
from ikigai.core.record import Record
from ikigai.core.state import inputs


class Command(Record, frozen=True):
    """One line of the table. `completes` names what its argument can be: marks, models, agents, code, commands …

    `more` is what only the help of this command says.
    """

    name: str
    argument: str
    help: str
    meaning: Callable[[str], Meaning]
    completes: str = ""
    aliases: tuple[str, ...] = ()
    more: str = ""


COMMANDS: tuple[Command, ...] = (
    Command("help", "[command]", "what can be typed here", local("help"), "commands"),
    Command("clear", "", "start with an empty context; the history stays", bare("clear", inputs.Clear())),
    Command("mark", "[label]", "remember this place", mark),
    Command(
        "rewind",
        "[label|ID]",
        "go back to the newest mark, the one named, or the turn of an event",
        rewind,
        "marks",
        more="What came after leaves the context and stays in the history. The turn that the event belongs to stays.",
    ),
    Command(
        "undo",
        "[ID]",
        "take back the newest clear, rewind, forget or summary",
        undo,
        "acts",
        more="Again goes further back. With the id of an undo it does what that one took back once more.",
    ),
    Command("retry", "", "take back the newest turn and send its message again", bare("retry", inputs.Retry())),
    Command("edit", "", "take back the newest turn and edit its message", bare("edit", inputs.Edit())),
    Command(
        "forget",
        "CRITERIA|IDS",
        "forget messages: by meaning, or by ids (45-67, 70, last 3)",
        filtering("forget"),
        more="The model looks for what matches; with ids no model is asked. You see what was found and confirm.",
    ),
    Command(
        "remember",
        "CRITERIA",
        "keep only the messages that match, and forget all else",
        filtering("remember"),
        more="The model looks for what matches. You see what was found and confirm.",
    ),
    Command(
        "model",
        "[PROVIDER/NAME[:LEVEL]]",
        "show or choose the model; 'default' takes it back",
        model,
        "models",
        more="The thinking level that you chose stays if the new model has it; else the model's own default holds.",
    ),
    Command("think", "[LEVEL]", "show or choose how much the model thinks: off, min, low, med, high", think, "levels"),
    Command("system", "[text]", "show or set the system prompt; 'default' takes it back", system),
    Command(
        "profile",
        "[NAME]",
        "show the profiles, or choose one; 'default' takes it back",
        profile,
        "profiles",
        more="What you have chosen yourself (/model, /budget …) stays as you chose it.",
    ),
    Command(
        "pin",
        "[PATH]",
        "let a file join the system prompt as it is now; show what has",
        local("pin"),
        "files",
        more="/pin --refresh [PATH] takes files as they are now, /unpin PATH takes one away; /clear keeps all.",
    ),
    Command("unpin", "PATH", "take a pinned file out of the system prompt", asked("unpin", "Which file?"), "pins"),
    Command("budget", "[tokens]", "show or set the sliding budget, for example 200k; 0 is off", set_budget),
    Command(
        "condense",
        "[FOCUS]",
        "have a model summarise the oldest turns; again stops it",
        condense,
        more="FOCUS is what to keep in mind above all. It happens in the background; the newest two turns stay as they"
        ' are. /summary shows it, /undo takes it back. condense = "auto" under [context] does it by itself.',
    ),
    Command(
        "summary", "", "the summary in the context, and those of what was cleared", bare("summary", Local("summary"))
    ),
    Command("history", "", "look through everything that was said (Ctrl+T)", bare("history", Local("history"))),
    Command("context", "", "what is in the window, by part, and what is out of it", bare("context", Local("context"))),
    Command(
        "search",
        "QUERY | #ID",
        "find words in everything ever said; #ID shows an event",
        search,
        more='Words are found where a word begins, *parts* anywhere, "phrases" as they are; case and accents do not'
        " matter. Every hit holds all of them. The newest come first; `ikigai history search` can do more.",
    ),
    Command(
        "recall",
        "QUESTION",
        "answer from everything ever said, with its sources",
        asked("recall", "What do you want to know?"),
        more="Forgotten text is found, too, and does not come back into the context.",
    ),
    Command("quote", "ID", "bring a message back into the conversation", asked("quote", "Which message?")),
    Command(
        "approve",
        "[MODE|revoke N]",
        "how much models may do without asking; what was approved for always",
        local("approve"),
        "modes",
        more="Modes: ask, edits, auto, read-only, yolo; 'default' takes the choice back. Shift+Tab goes through them.",
    ),
    Command("tools", "[on|off SET]", "what models can do here; switch it on and off", local("tools"), "sets"),
    Command(
        "trust",
        "[yes|no [FOLDER]]",
        "whether this folder's AGENTS.md, tools and settings are used",
        local("trust"),
        "trust",
        more="Alone it lists the folders that are trusted, each for itself alone. Without a FOLDER, this one is meant.",
    ),
    Command(
        "export",
        "FILE [FROM-TO]",
        "write what was said to a file: .md, .html, .json or .jsonl",
        asked("export", "Where to?"),
        "files",
        more="All of it, ancestors' too, or the events from one id to another. --force before FILE replaces a file that"
        " is there. `ikigai history import` makes an agent of a .json or .jsonl file.",
    ),
    Command(
        "copy",
        "[N]",
        "copy the last answer, or its Nth code block",
        local("copy"),
        "code",
        more="The terminal does it (OSC 52), over ssh, too; some have to be told to. c in the history copies the rest.",
    ),
    Command(
        "cost",
        "[--plot [FILE]]",
        "tokens and cost: this session, this agent, everything",
        cost,
        "plot",
        more="--plot draws tokens and cost over time, and how full the window was; into FILE.png or FILE.svg with the"
        " extra `plot`.",
    ),
    Command("status", "", "agent, model, context, database", local("status")),
    Command("config", "", "every setting, its value and where it comes from", local("config")),
    Command("new", "[name]", "begin a fresh agent and go there", local("new")),
    Command(
        "fork",
        '[at ID] ["prompt"]',
        "go on in a child that shares the past, at once with a prompt",
        local("fork"),
        "turns",
        more="Options, in front of the prompt: --model PROVIDER/NAME[:LEVEL], --name NAME. `at ID` forks at the end of"
        " the turn of any event, of other agents too, as memory was then. A busy agent is forked before its open turn"
        " and goes on. Settings go with the child, marks do not; what either does later is its own.",
    ),
    Command(
        "agents",
        "[--all]",
        "the tree of agents: state, model, last words, who holds it",
        local("agents"),
        "all",
        more="--all shows the dead, too. `ikigai agents` can do more.",
    ),
    Command(
        "switch",
        "NAME",
        "go to another agent; this one goes on in the background",
        local("switch"),
        "agents",
        more="Alt+Up goes to the parent, Alt+Down to the newest child, Alt+Left and Alt+Right to siblings. What is in"
        " the input stays with its agent.",
    ),
    Command(
        "send",
        'NAME "text"',
        "send a message to another agent, and stay here",
        send,
        "agents",
        more="It is your own word to that agent, which begins a turn with it at once, or when its turn has ended. One"
        " that another program holds gets it there.",
    ),
    Command(
        "answer",
        "[NAME]",
        "answer what an agent in the background asks",
        local("answer"),
        "agents",
        more="The status line says who asks. The question is shown with the agent's name; /switch NAME goes there.",
    ),
    Command(
        "wait",
        "[NAME ...]",
        "wait until agents are at rest, and see what they said",
        local("wait"),
        "agents",
        more="Without a name it is all that are at work. Typing goes on meanwhile; Esc stops the waiting alone.",
    ),
    Command("rename", "[OLD] NEW", "give this agent, or another, a new name", local("rename"), "agents"),
    Command(
        "kill",
        "[NAME]",
        "put an agent and its children out of use",
        local("kill"),
        "agents",
        more="You are asked first. Running work is cancelled; the history stays and can be searched. A root cannot be"
        " killed. /agents --all shows the dead, /revive brings one back.",
    ),
    Command("revive", "NAME", "bring a killed agent back", asked("revive", "Which agent?"), "dead"),
    Command(
        "takeover",
        "",
        "go on with the agent that is followed, when its program has gone",
        bare("takeover", Local("takeover")),
        more="A reply that was under way ends as interrupted, with the words that were saved of it.",
    ),
    Command("exit", "", "leave; the conversation stays", bare("exit", Local("exit")), aliases=("quit",)),
)

BY_NAME = {name: command for command in COMMANDS for name in (command.name, *command.aliases)}


def parse(line: str) -> Meaning:
    """What a line that begins with a slash means. Raises Refused with the nearest names."""
    word = line.split(maxsplit=1)[0]
    name = word[1:]
    command = BY_NAME.get(name)
    if command is None:
        begun = [other for other in BY_NAME if name and other.startswith(name)]
        near = begun[:3] or nearest(name, BY_NAME, 3)
        hint = "Did you mean " + " or ".join(f"/{found}" for found in near) + "?" if near else "/help lists them."
        raise Refused(f"There is no command /{name}.", hint)
    return command.meaning(line[len(word) :].strip())


def is_command(line: str) -> bool:
    """Whether a submitted text is a command: a slash and a letter first, and one line; those in LONG take more."""
    first = line.split(maxsplit=1)[0] if line[1:2].isalpha() else ""
    return first.startswith("/") and "/" not in first[1:] and ("\n" not in line or first in LONG)


LONG = ("/system", "/fork", "/send")
"""Commands whose argument can have several lines."""


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
