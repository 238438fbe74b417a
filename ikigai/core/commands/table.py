"""This module holds the table of slash commands, which the prompt, print mode, completion and help read."""

from ikigai.core.approval_mode import ApprovalMode
from ikigai.core.commands import parsers
from ikigai.core.commands.arguments import quoted
from ikigai.core.commands.parsers import Meaning
from ikigai.core.commands.spec import CommandSpec, CommandTiming, PrintMode
from ikigai.core.errors import Rejected, closest_names
from ikigai.core.state import inputs

# fmt: off
COMMANDS: tuple[CommandSpec, ...] = (
    CommandSpec("help", "[COMMAND|all|keys]", "list the commands, or explain one",
        print_mode=PrintMode.SHOW, completes="commands"),
    CommandSpec("keys", "", "list the keys, as ? on an empty line does"),
    CommandSpec("clear", "", "start with an empty context; the history stays",
        timing=CommandTiming.AGENT, print_mode=PrintMode.CHANGE, parser=lambda _: inputs.Clear()),
    CommandSpec("mark", "[label]", "remember this place",
        timing=CommandTiming.AGENT, print_mode=PrintMode.CHANGE, parser=parsers.parse_mark),
    CommandSpec("rewind", "[label|ID]", "go back to the newest mark, the one named, or the turn of an event",
        timing=CommandTiming.AGENT, print_mode=PrintMode.CHANGE, parser=parsers.parse_rewind, completes="marks",
        more="What came after leaves the context and stays in the history. The turn that the event belongs to "
        "stays."),
    CommandSpec("undo", "[ID]", "take back the newest clear, rewind, forget or summary",
        timing=CommandTiming.AGENT, print_mode=PrintMode.CHANGE, parser=parsers.parse_undo, completes="acts",
        more="Again goes further back. With the id of an undo it does what that one took back once more."),
    CommandSpec("redo", "", "take back the newest undo",
        timing=CommandTiming.AGENT, print_mode=PrintMode.CHANGE, parser=lambda _: inputs.Redo(),
        more="Again takes back the undo before it."),
    CommandSpec("retry", "", "take back the newest turn and send its message again",
        timing=CommandTiming.AGENT, print_mode=PrintMode.CHANGE, parser=lambda _: inputs.Retry()),
    CommandSpec("edit", "", "take back the newest turn and edit its message",
        timing=CommandTiming.AGENT, parser=lambda _: inputs.Edit()),
    CommandSpec("editor", "", "write the message in your editor ($VISUAL, $EDITOR), as Ctrl+G does"),
    CommandSpec("forget", "CRITERIA|IDS", "forget messages: by meaning, or by ids (45-67, 70, last 3)",
        timing=CommandTiming.AGENT, print_mode=PrintMode.CHANGE, parser=parsers.parse_filter("forget"),
        more="The model looks for what matches; with ids no model is asked. You see what was found and confirm."),
    CommandSpec("remember", "CRITERIA", "keep only the messages that match, and forget all else",
        timing=CommandTiming.AGENT, print_mode=PrintMode.CHANGE, parser=parsers.parse_filter("remember"),
        more="The model looks for what matches. You see what was found and confirm."),
    CommandSpec("model", "[PROVIDER/NAME[:LEVEL]]", "choose the model, alone from a list; 'default' takes it back",
        print_mode=PrintMode.SHOW, parser=parsers.parse_model_command, completes="models",
        more="The thinking level that you chose stays if the new model has it; else the model's own default holds."),
    CommandSpec("think", "[LEVEL]", "show or choose how much the model thinks: off, min, low, med, high",
        print_mode=PrintMode.CHANGE, parser=parsers.parse_think, completes="levels"),
    CommandSpec("system", "[text]", "show or set the system prompt; 'default' takes it back",
        print_mode=PrintMode.SHOW, parser=parsers.parse_system, multiline=True,
        more='/system "" clears it. By default a model is told the folder, the system, the date and what its tools are '
        "for; default_system_prompt = false under [context] switches that off."),
    CommandSpec("profile", "[NAME]", "show the profiles, or choose one; 'default' takes it back",
        print_mode=PrintMode.SHOW, parser=parsers.parse_profile, completes="profiles",
        more="It replaces what was chosen before of the settings that it names; /model, /budget … replace it again."),
    CommandSpec("pin", "[PATH]", "let a file join the system prompt as it is now; show what has",
        timing=CommandTiming.BLOCKING, completes="files",
        more="/pin --refresh [PATH] takes files as they are now, /unpin PATH takes one away; /clear keeps all."),
    CommandSpec("unpin", "PATH", "take a pinned file out of the system prompt",
        timing=CommandTiming.BLOCKING, question="There is no file to unpin.", completes="pins"),
    CommandSpec("budget", "[tokens]", "show or set the sliding budget, for example 200k; 0 is off",
        timing=CommandTiming.AGENT, print_mode=PrintMode.CHANGE, parser=parsers.set_budget),
    CommandSpec("condense", "[FOCUS]", "have a model summarise the oldest turns; again stops it",
        timing=CommandTiming.AGENT, print_mode=PrintMode.CHANGE, parser=parsers.parse_condense, aliases=("compact",),
        more="FOCUS is what to keep in mind above all. It happens in the background; the newest two turns stay as "
        'they are. /summary shows it, /undo takes it back. condense = "auto" under [context] does it by '
        "itself."),
    CommandSpec("summary", "", "the summary in the context, and those of what was cleared",
        print_mode=PrintMode.SHOW),
    CommandSpec("history", "", "look through everything that was said (Ctrl+T)"),
    CommandSpec("context", "", "what is in the window, by part, and what is out of it", print_mode=PrintMode.SHOW),
    CommandSpec("search", "QUERY | #ID", "find words in everything ever said; #ID shows an event",
        print_mode=PrintMode.SHOW, parser=parsers.parse_search,
        more='Words are found where a word begins, *parts* anywhere, "phrases" as they are; case and accents do '
        "not matter. Every hit holds all of them. The newest come first; `ikigai history search` can do more."),
    CommandSpec("recall", "QUESTION", "answer from everything ever said, with its sources",
        question="There is no question.",
        more="Forgotten text is found, too, and does not come back into the context."),
    CommandSpec("btw", "QUESTION", "ask about the present context, beside the conversation", parser=parsers.parse_btw,
        multiline=True,
        more="The answer is shown and kept nowhere: neither the context nor the history has it, /cost counts it. It is "
        "answered without tools, also while the agent is busy. Esc stops it."),
    CommandSpec("quote", "ID", "bring a message back into the conversation",
        question="There is no message to bring back."),
    CommandSpec("approve", "[MODE|revoke N]", "how much models may do without asking; what was approved for always",
        timing=CommandTiming.BLOCKING, completes="modes",
        more=f"Modes: {', '.join(ApprovalMode)}; 'default' takes the choice back. Shift+Tab goes through "
        "them."),
    CommandSpec("tools", "[on|off SET]", "what models can do here; switch it on and off",
        timing=CommandTiming.BLOCKING, completes="sets"),
    CommandSpec("trust", "[yes|no [FOLDER]]", "whether this folder's AGENTS.md, tools and settings are used",
        timing=CommandTiming.BLOCKING, completes="trust",
        more="Alone it lists the folders that are trusted, each for itself alone. Without a FOLDER, this one is "
        "meant."),
    CommandSpec("export", "[--force] FILE [FROM-TO]", "write what was said to a file: .md, .html, .json or .jsonl",
        question="There is no file to write to.", completes="files",
        more="All of it, ancestors' too, or the events from one id to another. --force replaces a file that is "
        "there. `ikigai history import` makes an agent of a .json or .jsonl file."),
    CommandSpec("copy", "[N]", "copy the last answer, or its Nth code block", completes="code",
        more="The terminal does it (OSC 52), over ssh, too; some have to be told to. c in the history copies the "
        "rest."),
    CommandSpec("cost", "[--plot [FILE]]", "tokens and cost: this session, this agent, everything",
        print_mode=PrintMode.SHOW, parser=parsers.parse_cost, completes="plot",
        more="--plot draws tokens and cost over time, and how full the window was; into FILE.png or FILE.svg with "
        "the extra `plot`."),
    CommandSpec("status", "", "agent, model, context, database", print_mode=PrintMode.SHOW),
    CommandSpec("login", "PROVIDER", "store a provider's key; it is asked for, and not shown", completes="providers",
        more="The key is tried and kept in a private file, as by `ikigai login`. It comes into no history and no log."),
    CommandSpec("doctor", "[--online]", "check terminal, database, keys and files", completes="online",
        more="--online asks the providers whether they take the keys. `ikigai doctor` does the same."),
    CommandSpec("theme", "[NAME]", "list the themes, or set one for this run", completes="themes"),
    CommandSpec("init", "", "have the model write an AGENTS.md for this folder", timing=CommandTiming.QUEUED),
    CommandSpec("config", "[KEY [VALUE]]", "show settings and where they come from; set one", completes="settings",
        more="With a KEY: its value, its origin and what is allowed. With a VALUE it is written to your configuration "
        "file; the answer says when it takes effect. `ikigai config edit` opens the file."),
    CommandSpec("new", "[name]", "begin a fresh agent and go there", timing=CommandTiming.SWITCHING),
    CommandSpec("fork", '[at ID] [--model M[:LEVEL]] [--name NAME] ["prompt"]',
        "go on in a child that shares the past, at once with a prompt",
        timing=CommandTiming.SWITCHING, print_mode=PrintMode.TREE, parser=parsers.fork, completes="turns",
        multiline=True,
        more="`at ID` forks at the "
        "end of the turn of any event, of other agents too, as memory was then. A busy agent is forked before "
        "its open turn and goes on. Settings go with the child, marks do not; what either does later is its "
        "own."),
    CommandSpec("agents", "[--all]", "the tree of agents: state, model, last words, who holds it",
        print_mode=PrintMode.SHOW, parser=parsers.parse_agents, completes="all",
        more="--all shows killed and archived ones, too. `ikigai agents` can do more."),
    CommandSpec("switch", "[NAME]", "go to another agent; this one goes on in the background",
        timing=CommandTiming.SWITCHING, completes="agents", aliases=("resume", "sessions"),
        more="Without a name it lists them; typing filters by name, folder and what was said. Alt+Up goes to the "
        "parent, Alt+Down to the newest child, Alt+Left and Alt+Right to siblings. What is "
        "in the input stays with its agent."),
    CommandSpec("send", 'NAME "text"', "send a message to another agent, and stay here",
        parser=parsers.parse_send, completes="agents", multiline=True,
        more="It is your own word to that agent, which begins a turn with it at once, or when its turn has ended. "
        "One that another program holds gets it there."),
    CommandSpec("answer", "[NAME]", "answer what an agent in the background asks", completes="agents",
        more="The status line says who asks. The question is shown with the agent's name; /switch NAME goes there."),
    CommandSpec("wait", "[NAME ...]", "wait until agents are at rest, and see what they said", completes="agents",
        more="Without a name it is all that are at work. Typing goes on meanwhile; Esc stops the waiting alone."),
    CommandSpec("rename", "[OLD] NEW", "give this agent, or another, a new name",
        timing=CommandTiming.QUEUED, print_mode=PrintMode.TREE, parser=parsers.rename, completes="agents"),
    CommandSpec("kill", "[NAME]", "put an agent and its children out of use",
        timing=CommandTiming.BLOCKING, print_mode=PrintMode.TREE, parser=parsers.kill, completes="agents",
        more="You are asked first. Running work is cancelled; the history stays and can be searched. A root cannot "
        "be killed, but archived. /agents --all shows it, /revive brings one back."),
    CommandSpec("archive", "[NAME]", "take an agent and its forks out of the lists",
        timing=CommandTiming.QUEUED, print_mode=PrintMode.TREE, parser=parsers.archive, completes="agents",
        more="It can be searched, and used by its name, as before. /agents --all shows it, /revive lists it again."),
    CommandSpec("revive", "NAME", "bring a killed or archived agent back",
        print_mode=PrintMode.TREE, question="There is no agent to bring back.", completes="unlisted"),
    CommandSpec("takeover", "", "go on with the agent that is followed, when its program has gone",
        timing=CommandTiming.SWITCHING,
        more="A reply that was under way ends as interrupted, with the words that were saved of it."),
    CommandSpec("exit", "", "leave; the conversation stays", aliases=("quit",)),
)
# fmt: on

MAX_NAME = 40
"""Characters of an unknown name that are compared with the known ones."""
BY_NAME = {name: command for command in COMMANDS for name in (command.name, *command.aliases)}


def parse(line: str) -> Meaning:
    """Return the meaning of a line that begins with a slash. Raise Rejected with the nearest names."""
    word = line.split(maxsplit=1)[0]
    name = word[1:]
    command = BY_NAME.get(name)
    if not name:
        raise Rejected("A command follows its slash without a space.", "/help lists the commands.")
    if command is None:
        begun = [other for other in BY_NAME if other.startswith(name)]
        near = begun[:3] or closest_names(name[:MAX_NAME], BY_NAME, 3)
        hint = "Did you mean " + " or ".join(f"/{found}" for found in near) + "?" if near else "/help lists them."
        raise Rejected(f"There is no command {quoted(word)}.", hint)
    return command.parse(line[len(word) :].strip())


def is_command(line: str) -> bool:
    """Return True if a submitted text is a command: a slash and a letter first, and one line unless the command takes
    more. A slash alone, or with a blank behind it, is a mistyped one.
    """
    if line == "/" or (line.startswith("/ ") and "\n" not in line):
        return True
    first = line.split(maxsplit=1)[0] if line[1:2].isalpha() else ""
    if not first.startswith("/") or "/" in first[1:]:
        return False
    return "\n" not in line or ((command := BY_NAME.get(first[1:])) is not None and command.multiline)
