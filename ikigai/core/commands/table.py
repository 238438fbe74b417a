"""Table of slash commands, which the prompt, print mode, completion and help read."""

import re
from collections.abc import Callable

from ikigai.core.commands import parsers
from ikigai.core.commands.arguments import quoted
from ikigai.core.commands.parsers import Meaning
from ikigai.core.commands.spec import CommandSpec, CommandTiming, PrintMode
from ikigai.core.errors import Rejected, closest_names
from ikigai.core.state import inputs
from ikigai.core.tools.approval_mode import ApprovalMode

# fmt: off
COMMANDS: tuple[CommandSpec, ...] = (
    CommandSpec("help", "[COMMAND|all|keys]", "list the commands, or explain one",
        group="Basics", example="/help forget", related="keys", print_mode=PrintMode.SHOW, completes="commands"),
    CommandSpec("keys", "", "list the keys, as ? on an empty line does",
        group="Basics", example="/keys", related="help"),
    CommandSpec("model", "[PROVIDER/NAME[:LEVEL]]", "choose the model; alone: from a list; 'default' resets it",
        group="Basics", example="/model openai/gpt-5-mini:low", related="think login profile",
        print_mode=PrintMode.SHOW, parser=parsers.parse_model_command, completes="models",
        more="The thinking level that you chose stays if the new model has it; else the model's own default applies."),
    CommandSpec("login", "[PROVIDER]", "store a provider's key, hidden; alone: from a list",
        group="Basics", example="/login anthropic", related="model doctor", completes="providers",
        more="The key is tested and stored in a private file, as by `ikigai login`. It is never written to the "
        "history or a log."),
    CommandSpec("new", "[name]", "start a new agent and switch to it",
        group="Basics", example="/new side-project", related="switch fork clear", timing=CommandTiming.SWITCHING),
    CommandSpec("switch", "[NAME]", "switch to another agent; this one continues in the background",
        group="Basics", example="/switch side-project", related="agents new fork",
        timing=CommandTiming.SWITCHING, completes="agents", aliases=("resume", "sessions"),
        more="Without a name it lists them; typing filters by name, folder and messages. "
        "What is in the input stays with its agent."),
    CommandSpec("clear", "", "start with an empty context; the history stays",
        group="Basics", example="/clear", related="undo rewind new",
        timing=CommandTiming.AGENT, print_mode=PrintMode.CHANGE, parser=lambda _: inputs.Clear()),
    CommandSpec("undo", "[ID]", "undo the newest clear, rewind, forget, remember or condense",
        group="Basics", example="/undo", related="redo rewind",
        timing=CommandTiming.AGENT, print_mode=PrintMode.CHANGE, parser=parsers.parse_undo, completes="acts",
        more="Repeat it to go further back. Excerpts that the newest turn recalled are taken out alone. /retry and "
        "/edit are rewinds. With the id of an undo it redoes what that one undid."),
    CommandSpec("retry", "", "undo the newest turn and send its message again",
        group="Basics", example="/retry", related="edit undo",
        timing=CommandTiming.AGENT, print_mode=PrintMode.CHANGE, parser=lambda _: inputs.Retry()),
    CommandSpec("edit", "[ID]", "undo the newest turn and edit its message",
        group="Basics", example="/edit", related="retry rewind editor",
        timing=CommandTiming.AGENT, parser=parsers.parse_edit,
        more="With the id of an event of another turn: go back to before that turn. In the history e does so."),
    CommandSpec("copy", "[N]", "copy the last answer, or its Nth code block",
        group="Basics", example="/copy 2", related="export history", completes="code",
        more="The terminal copies it (OSC 52), also over ssh; some terminals need a setting. c in the history copies "
        "other messages."),
    CommandSpec("search", "QUERY | #ID", "search the whole history; #ID shows an event",
        group="Basics", example='/search "sliding window" token*', related="recall history quote",
        print_mode=PrintMode.SHOW, question="Add the words to search for.",
        more='Words are found where a word begins, *parts* anywhere, "phrases" as they are; case and accents do '
        "not matter. Every hit holds all of them. The newest come first; `ikigai history search` has more options."),
    CommandSpec("history", "", "browse the whole history",
        group="Basics", example="/history", related="search rewind"),
    CommandSpec("exit", "", "leave; the conversation stays",
        group="Basics", example="/exit", related="switch", aliases=("quit",)),
    CommandSpec("context", "", "show what the context contains, by part, and what has left",
        group="Context", example="/context", related="budget status", print_mode=PrintMode.SHOW),
    CommandSpec("budget", "[tokens]", "show or set the sliding budget, for example 200k; 0 is off",
        group="Context", example="/budget 60k", related="context condense",
        print_mode=PrintMode.SHOW, parser=parsers.parse_budget_command,
        more="It is the largest size of a request. Above it the oldest turns leave the window, and stay in the "
        "history. 'default' resets it; /context shows the parts of a request."),
    CommandSpec("mark", "[label]", "set a mark here",
        group="Context", example="/mark before the rewrite", related="rewind",
        timing=CommandTiming.AGENT, print_mode=PrintMode.CHANGE, parser=parsers.parse_mark),
    CommandSpec("rewind", "[label|ID]", "go back to the newest mark, the one named, or the turn of an event",
        group="Context", example="/rewind before the rewrite", related="mark undo retry",
        timing=CommandTiming.AGENT, print_mode=PrintMode.CHANGE, parser=inputs.RewindTo, completes="marks",
        more="/rewind alone lists the marks to choose from, the newest first. Without a mark it opens the history to "
        "choose a message. During a turn and in print mode it takes the newest mark. What came after leaves the context"
        " and stays in the history. The turn that the event belongs to stays."),
    CommandSpec("redo", "", "redo what the newest undo undid",
        group="Context", example="/redo", related="undo",
        timing=CommandTiming.AGENT, print_mode=PrintMode.CHANGE, parser=lambda _: inputs.Redo(),
        more="Repeat it for the undo before that."),
    CommandSpec("forget", "CRITERIA|IDS", "forget messages: by meaning, or by ids (45-67, 70, last 3)",
        group="Context", example="/forget last 2", related="remember undo rewind",
        timing=CommandTiming.AGENT, print_mode=PrintMode.CHANGE, parser=parsers.parse_filter("forget"),
        more="The model looks for what matches; with ids no model is asked. You see what was found and confirm."),
    CommandSpec("remember", "CRITERIA", "keep only the messages that match, and forget all else",
        group="Context", example="/remember all about the parser", related="forget undo",
        timing=CommandTiming.AGENT, print_mode=PrintMode.CHANGE, parser=parsers.parse_filter("remember"),
        more="The model looks for what matches. You see what was found and confirm."),
    CommandSpec("condense", "[FOCUS]", "summarise the oldest turns (run again to stop)",
        group="Context", example="/condense paths and decisions", related="summary budget undo",
        timing=CommandTiming.AGENT, print_mode=PrintMode.CHANGE, parser=inputs.Condense, aliases=("compact",),
        more="FOCUS says what to keep above all. It runs in the background; the newest two turns stay as they are. "
        '/summary shows it, /undo undoes it. condense = "auto" under [context] starts it automatically.'),
    CommandSpec("summary", "", "show the summary in the context, and those of cleared turns",
        group="Context", example="/summary", related="condense context", print_mode=PrintMode.SHOW),
    CommandSpec("pin", "[PATH]", "add a copy of a file to the system prompt; alone: list them",
        group="Context", example="/pin docs/rules.md", related="unpin system",
        timing=CommandTiming.BLOCKING, completes="files",
        more="/pin --refresh [PATH] pins the current versions, /unpin PATH removes one; /clear keeps all."),
    CommandSpec("unpin", "PATH", "take a pinned file out of the system prompt",
        group="Context", example="/unpin docs/rules.md", related="pin",
        timing=CommandTiming.BLOCKING, question="Which file? /pin lists them.", completes="pins"),
    CommandSpec("system", "[text]", "show or set the system prompt; 'default' resets it",
        group="Context", example="/system Answer in one sentence.", related="pin profile",
        print_mode=PrintMode.SHOW, parser=parsers.parse_system, multiline=True,
        more='/system "" clears it. The default one names the folder, the system, the date and the use of the tools; '
        "default_system_prompt = false under [context] switches it off."),
    CommandSpec("think", "[LEVEL]", "show or choose how much the model thinks: off, min, low, med, high",
        group="Models", example="/think high", related="model profile",
        print_mode=PrintMode.SHOW, parser=parsers.parse_think, completes="levels"),
    CommandSpec("profile", "[NAME]", "show the profiles, or choose one; 'default' resets it",
        group="Models", example="/profile cheap", related="model think config",
        print_mode=PrintMode.SHOW, parser=parsers.parse_profile, completes="profiles",
        more="It replaces earlier choices of the settings that it names; /model, /budget … replace them again."),
    CommandSpec("cost", "[--plot]", "show tokens and cost: this session, this agent, everything",
        group="Models", example="/cost --plot", related="limit status context",
        print_mode=PrintMode.SHOW, parser=parsers.check_cost, completes="plot",
        more="--plot draws tokens and cost over time, and how full the window was."),
    CommandSpec("limit", "[turn|run|day|agent AMOUNT|off]", "show the spending caps, or set one for this run",
        group="Models", example="/limit day 5", related="cost config",
        print_mode=PrintMode.SHOW, parser=parsers.check_limit, completes="caps",
        more="AMOUNT is in US dollars (5, $0.50) or tokens (200k). A request starts only if the most that it can cost "
        "fits under every cap. `agent` counts its subagents; the keys of [limits] hold for every run."),
    CommandSpec("fork", '[at ID] [--model M[:LEVEL]] [--name NAME] ["prompt"]',
        "continue in a child with the same past; a prompt is sent at once",
        group="Agents", example='/fork --name tests "Write tests for it."', related="agents switch send",
        timing=CommandTiming.SWITCHING, print_mode=PrintMode.TREE, parser=parsers.check_fork, completes="turns",
        multiline=True,
        more="`at ID` forks at the "
        "end of the turn of any event, of other agents too, as memory was then. A busy agent is forked before "
        "its open turn and goes on. Settings go with the child, marks do not; later changes of one do "
        "not affect the other."),
    CommandSpec("agents", "[--all]", "show the tree of agents: state, model, last words, process",
        group="Agents", example="/agents --all", related="switch fork wait",
        print_mode=PrintMode.SHOW, parser=parsers.check_agents, completes="all",
        more="--all shows killed and archived ones, too. `ikigai agents` has more options."),
    CommandSpec("send", 'NAME "text"', "send a message to another agent, and stay here",
        group="Agents", example='/send tests "Look at the parser, too."', related="answer wait agents",
        parser=parsers.parse_send, completes="agents", multiline=True,
        more="That agent starts a turn with it at once, or when its current turn has ended, also if it is open in "
        "another ikigai."),
    CommandSpec("answer", "[NAME]", "answer the question of a background agent",
        group="Agents", example="/answer tests", related="agents switch", completes="agents",
        more="The status line names the agent. The question is shown with the agent's name; /switch NAME goes there."),
    CommandSpec("wait", "[NAME ...]", "wait until agents are idle, and show their last words",
        group="Agents", example="/wait tests", related="agents send", completes="agents",
        more="Without a name: all that are running. You can type meanwhile; the stop key stops only the waiting."),
    CommandSpec("rename", "[OLD] NEW", "rename this agent, or another",
        group="Agents", example="/rename parser", related="agents",
        timing=CommandTiming.QUEUED, print_mode=PrintMode.TREE, parser=parsers.check_rename, completes="agents"),
    CommandSpec("kill", "[NAME]", "stop an agent and its forks (undo: /revive)",
        group="Agents", example="/kill tests", related="revive archive agents",
        timing=CommandTiming.BLOCKING, print_mode=PrintMode.TREE, parser=parsers.check_kill, completes="agents",
        more="You are asked first. Running work is cancelled; the history stays and can be searched. A top-level "
        "agent cannot be killed, but archived. /agents --all shows it, /revive brings one back."),
    CommandSpec("archive", "[NAME]", "hide an agent and its forks from the lists",
        group="Agents", example="/archive tests", related="revive kill agents",
        timing=CommandTiming.QUEUED, print_mode=PrintMode.TREE, parser=parsers.check_archive, completes="agents",
        more="It can be searched, and used by its name, as before. /agents --all shows it, /revive lists it again."),
    CommandSpec("revive", "NAME", "bring a killed or archived agent back",
        group="Agents", example="/revive tests", related="kill archive agents",
        print_mode=PrintMode.TREE, question="Name an agent; /agents --all lists killed and archived ones.",
        completes="unlisted"),
    CommandSpec("takeover", "", "take control of the followed agent after its program has ended",
        group="Agents", example="/takeover", related="switch agents", timing=CommandTiming.SWITCHING,
        more="A reply that was under way ends as interrupted, with the text that was saved."),
    CommandSpec("recall", "QUESTION", "answer a question from the whole history, with sources",
        group="History", example="/recall why we chose PostgreSQL", related="search quote", question="Add a question.",
        more="Forgotten text is found, too, but does not return to the context."),
    CommandSpec("quote", "ID", "bring a message back into the conversation",
        group="History", example="/quote 4711", related="search recall",
        question="Add the id of a message; /search shows ids."),
    CommandSpec("btw", "QUESTION", "ask a side question that leaves no trace here",
        group="History", example="/btw what does this flag do?", related="recall fork", question="Add a question.",
        multiline=True,
        more="The answer is shown, but stored neither in the context nor in the history; /cost counts it. It uses "
        "no tools, and works while the agent is busy. The stop key stops it."),
    CommandSpec("export", "[--force] FILE [FROM-TO]", "write the conversation to a file: .md, .html, .json or .jsonl",
        group="History", example="/export talk.md", related="copy history",
        question="Name a file to write to.", completes="files",
        more="All of it, including ancestors, or the events from one id to another. --force overwrites an existing "
        "file. `ikigai history import` makes an agent of a .json or .jsonl file."),
    CommandSpec("approve", "[MODE|revoke N]", "show or set what models may do unasked; list standing approvals",
        group="Tools", example="/approve edits", related="tools trust",
        timing=CommandTiming.BLOCKING, completes="modes",
        more=f"Modes: {', '.join(ApprovalMode)}; 'default' removes the choice."),
    CommandSpec("tools", "[on|off SET]", "list the tools that models have here; switch sets on or off",
        group="Tools", example="/tools off web", related="approve trust mcp",
        timing=CommandTiming.BLOCKING, completes="sets"),
    CommandSpec("mcp", "[NAME | restart NAME]", "show MCP servers, their state and what they offer",
        group="Tools", example="/mcp", related="tools trust", completes="mcp",
        more="`ikigai mcp add` adds a server. /SERVER:PROMPT sends one of its prompts, @SERVER:URI attaches one of its "
        "resources."),
    CommandSpec("skills", "[on|off NAME]", "list your skills: tokens, use, and what is switched off",
        group="Tools", example="/skills off release-notes", related="commands tools trust",
        timing=CommandTiming.BLOCKING, print_mode=PrintMode.SHOW, completes="skills",
        more="/NAME sends a skill's instructions with your message. Models are offered names and descriptions, and ask "
        "for the rest. `ikigai skills check FOLDER` checks one."),
    CommandSpec("trust", "[yes|no [FOLDER]]", "show or set if this folder's AGENTS.md, tools and settings are used",
        group="Tools", example="/trust yes", related="approve init", timing=CommandTiming.BLOCKING, completes="trust",
        more="Alone: list the trusted folders. Trust does not include subfolders. Without FOLDER: this folder."),
    CommandSpec("init", "", "have the model write an AGENTS.md for this folder",
        group="Tools", example="/init", related="trust pin", timing=CommandTiming.QUEUED),
    CommandSpec("status", "", "show agent, model, context, database",
        group="Program", example="/status", related="context cost config", print_mode=PrintMode.SHOW),
    CommandSpec("config", "[KEY [VALUE]]", "show settings and where they come from; set one",
        group="Program", example="/config terminal.theme", related="theme keys", completes="settings",
        more="With a KEY: its value, its origin and what is allowed; with a table's name: its keys and their values. "
        "With a VALUE it is written to your configuration file, with 'default' removed from it; the answer says when "
        "that takes effect. "
        "`ikigai config edit` opens the file."),
    CommandSpec("theme", "[NAME]", "list the themes, or set one for this run",
        group="Program", example="/theme light", related="config", completes="themes"),
    CommandSpec("doctor", "[--online]", "check terminal, database, keys and files",
        group="Program", example="/doctor", related="login status", completes="online",
        more="--online tests the keys with the providers. `ikigai doctor` does the same."),
    CommandSpec("commands", "", "list your own commands: files whose text is sent as a message",
        group="Program", example="/commands", related="help skills trust", timing=CommandTiming.QUEUED,
        more="NAME.md in the folder commands beside your configuration, or in .ikigai/commands of a trusted folder, "
        "makes /NAME. In it $ARGUMENTS stands for what is typed after the name, $1 to $9 for its words."),
    CommandSpec("editor", "", "write the message in your editor ($VISUAL, $EDITOR)",
        group="Program", example="/editor", related="edit keys"),
)
# fmt: on

LOGIN_LINE = re.compile(r'(?m)^"?[ \t]*/login[ \t]+\S.*\n?')
"""A line whose argument may be a key: it is stored nowhere. In the stash it is a JSON string."""
MCP_PROMPT = re.compile(r"/[A-Za-z][A-Za-z0-9-]*:\S")
"""A line that names a prompt of an MCP server."""
MAX_COMPARED_CHARACTERS = 40
"""Characters of an unknown name that are compared with the known ones."""
BY_NAME = {name: command for command in COMMANDS for name in (command.name, *command.aliases)}


def parse(line: str, is_own: Callable[[str], bool] = lambda name: False) -> Meaning:
    """Return the meaning of a line that begins with a slash; `is_own` finds the names of the user's own commands.

    Raise Rejected with the nearest names.
    """
    word = line.split(maxsplit=1)[0]
    name = word[1:]
    command = BY_NAME.get(name)
    if MCP_PROMPT.match(line):
        return parsers.ProgramCommand("mcp", line)
    if not name:
        what = "A command follows its slash without a space." if line.strip("/ ") else "Type a command after the slash."
        raise Rejected(what, "/help lists the commands.")
    if command is None and is_own(name):
        return parsers.ProgramCommand("commands", line)
    if command is None:
        begun = [other for other in BY_NAME if other.startswith(name)]
        near = begun[:3] or closest_names(name[:MAX_COMPARED_CHARACTERS], BY_NAME, 3)
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
