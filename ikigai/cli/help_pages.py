"""What `--help` says beyond arguments: examples, exit codes, files and variables, one page for each command.

`complete` puts the pages at the parsers. Everything fits into 80 columns, however wide the terminal.
"""

from __future__ import annotations

import argparse
import shutil
import textwrap
from typing import Any, NamedTuple, TypeAlias

COLUMNS = 80
Lines: TypeAlias = tuple[tuple[str, str], ...]
"""What, and what is to be said of it."""


class Page(NamedTuple):
    """`about` stands in front where the parser itself has no description; `codes` are those beside 0, 2 and 75."""

    examples: Lines
    about: str = ""
    codes: Lines = ()
    files: Lines = ()
    variables: Lines = ()


CONFIG = ("~/.config/ikigai/config.toml", "your configuration")
DATA = ("~/.local/share/ikigai/", "the embedded database and the local model")
KEYS = ("~/.config/ikigai/keys.json", "the keys that `ikigai login` stored")
LOG = ("~/.local/state/ikigai/ikigai.log", "what went wrong")
URL = ("IKIGAI_DATABASE_URL, DATABASE_URL", "a database of your own")
API_KEYS = ("ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY", "keys of providers")
LOOKS = ("NO_COLOR, TERM", "no colours; no drawing where TERM is dumb")
REFUSED = ("1", "it is not possible, and the sentence says why")
ALWAYS: Lines = (
    ("0", "ok"),
    ("2", "wrong options or configuration, bad DSN, wrong password"),
    ("75", "try again later: something cannot be reached, or is busy"),
    ("130, 143", "interrupted (SIGINT), terminated (SIGTERM)"),
)

PAGES: dict[str, Page] = {
    "setup": Page(
        (("ikigai setup", "make everything ready"), ("ikigai --db DSN setup", "with a server of your own")),
        "Prepare the database, look for keys, and fetch a small local model where there are none. It asks nothing, "
        "and can be run again: what is done already is not done twice.",
        (("1", "no model could be fetched, or it does not answer"),),
        (CONFIG, KEYS, DATA),
        (URL, API_KEYS),
    ),
    "config": Page(
        (
            ("ikigai config", "every setting, its value, and where it comes from"),
            ("ikigai config init", "write a configuration that explains every key"),
            ('$EDITOR "$(ikigai config path)"', "change it"),
        ),
        "Show every setting with its value and its origin: a flag, a variable, the project's file, yours, a default.",
        (("1", "the file cannot be written"),),
        (CONFIG, (".ikigai/config.toml", "that of a project you trust")),
        (("IKIGAI_<TABLE>_<KEY>", "one key of the configuration; of [context] IKIGAI_<KEY>"),),
    ),
    "login": Page(
        (
            ("ikigai login anthropic", "asks for the key, and tries it"),
            ("ikigai login openai < key.txt", "reads it from a file"),
            ("ikigai login --list", "who has a key, and from where"),
            ("ikigai login --remove openai", "forgets it"),
        ),
        codes=(("1", "the provider does not take the key"),),
        files=(KEYS,),
        variables=(API_KEYS,),
    ),
    "models": Page(
        (
            ("ikigai models", "all that the keys at hand can use"),
            ("ikigai models anthropic --refresh", "as the provider lists them now"),
            ("ikigai models --json | jq .model", "for programs"),
        ),
        codes=(("1", "a provider refuses"),),
        files=(CONFIG, KEYS),
        variables=(API_KEYS,),
    ),
    "usage": Page(
        (
            ("ikigai usage --by model --since 7d", "the last seven days, by model"),
            ("ikigai usage --plot", "draw it, and how full the window was"),
            ("ikigai usage --plot usage.svg", "the same as a picture"),
            ("ikigai usage --agent calm-otter --json", "what one agent took, for programs"),
        ),
        "Add up what all requests took and cost, also those that failed. With --plot it "
        "is drawn over time, in hours, days, weeks, months or years, with the window of the agent named, or of the one "
        "used last: what its turns held, the budget, and when turns left. Pictures in files need matplotlib: "
        "pip install 'ikigai[plot]'.",
        (("1", "the picture cannot be written, is there already, or matplotlib is missing"),),
        variables=(LOOKS, ("COLUMNS", "how wide a drawing is where no terminal says it")),
    ),
    "agents": Page(
        (
            ("ikigai agents", "the tree"),
            ("ikigai agents --all --json", "the dead, too, for programs"),
            ("ikigai agents show calm-otter", "one of them"),
            ("ikigai agents rename calm-otter docs", "give it another name"),
            ("ikigai agents kill docs --yes", "put it out of use, and those below it"),
            ("ikigai agents revive docs", "take that back"),
        ),
        codes=(REFUSED,),
    ),
    "history": Page(
        (
            ("ikigai history search 'blue whale'", "everything ever said"),
            ("ikigai history export -o talk.html", "a history as a page"),
        ),
        "Search, list, show, export, import and recover what was said. Each of these takes --help.",
    ),
    "history search": Page(
        (
            ("ikigai history search blue whale", "both words, the newest first"),
            ("ikigai history search '\"blue whale\"' --since 30d", "as a phrase, this month"),
            ("ikigai history search '*whale*' --kind user", "within words, in what you said"),
            ("ikigai history search whale --json --limit 100", "for programs"),
        ),
        codes=(("1", "there is nothing to look for"),),
    ),
    "history list": Page(
        (
            ("ikigai history list", "of the agent used last"),
            ("ikigai history list --agent docs --limit 50", "of another"),
            ("ikigai history list --before 4711", "further back"),
        ),
        "List the last events of an agent, a line each, with their ids.",
        (REFUSED,),
    ),
    "history show": Page(
        (("ikigai history show 4711", "one event, whole"), ("ikigai history show 4711 --beside 5", "with its place")),
        "Show an event as it is in the log, and those beside it.",
        (("1", "there is no such event"),),
    ),
    "history export": Page(
        (
            ("ikigai history export -o talk.html", "a page for a browser"),
            ("ikigai history export --format md | less", "to read at once"),
            ("ikigai history export --agent docs -o docs.jsonl", "everything, to import elsewhere"),
            ("ikigai history export --from 100 --to 200 -o part.md", "a part"),
        ),
        codes=(("1", "there is nothing to export, or the file is there or cannot be written"),),
        files=(("FILE", "made with mode 0600; there whole or not at all"),),
    ),
    "history import": Page(
        (
            ("ikigai history import talk.jsonl", "under the name it had, if that is free"),
            ("ikigai history import talk.json --name old-talk", "under another"),
        ),
        codes=(("1", "the file is no such history; the sentence names the line"),),
    ),
    "history recover": Page(
        (
            ("ikigai history recover ~/.local/state/ikigai/unsaved-….jsonl", "as ikigai names it"),
            ("ikigai history recover FILE --name lost", "into a fork, whatever follows there"),
        ),
        codes=(("1", "it is no such file, is cut off, or is recovered already; the sentence says which"),),
        files=(("~/.local/state/ikigai/unsaved-*.jsonl", "what could not be saved"),),
        variables=(URL,),
    ),
    "doctor": Page(
        (
            ("ikigai doctor", "whether all is well"),
            ("ikigai doctor --online", "with the providers"),
            ("ikigai doctor --json | jq .ok", "for programs"),
        ),
        codes=(("1", "something is bad"),),
        files=(CONFIG, KEYS, DATA, LOG),
        variables=(URL, API_KEYS, LOOKS),
    ),
    "completion": Page(
        (
            ("source <(ikigai completion bash)", "in ~/.bashrc"),
            ("source <(ikigai completion zsh)", "in ~/.zshrc, behind compinit"),
            ("ikigai completion fish > ~/.config/fish/completions/ikigai.fish", "once"),
        ),
        "Print a script that makes the shell complete commands, options, their values and names of agents.",
    ),
    "db": Page(
        (("ikigai db status", "where it is"), ("ikigai db dump ikigai.dump", "keep a copy of everything")),
        "Look after the database. Each of these takes --help.",
    ),
    "db status": Page(
        (("ikigai db status", "server, size, extensions, how to connect"),),
        "Say where the database is, what is in it, and how to connect to it. Nothing is changed.",
        files=(DATA,),
        variables=(URL,),
    ),
    "db migrate": Page(
        (("ikigai db migrate", "bring the schema up to date"), ("ikigai --db DSN db migrate", "make one elsewhere")),
        "Bring the schema to the version of this program, or make it. Programs that write do so by themselves; it "
        "goes forward only, one migration in a transaction each.",
        variables=(URL,),
    ),
    "db dump": Page(
        (
            ("ikigai db dump ikigai.dump", "everything, in one file"),
            ("ikigai db dump - | age -p > ikigai.age", "through another program"),
        ),
        "Write everything to an archive of pg_dump's, which `ikigai db restore` reads.",
        (("1", "pg_dump is not installed or fails, or the file cannot be written"),),
        (("FILE", "made with mode 0600; there whole or not at all, in the place of another"),),
        (URL,),
    ),
    "db restore": Page(
        (("ikigai --db postgresql:///copy db restore ikigai.dump", "into a fresh database"),),
        "Read a dump into a database that holds no agents yet. All of it is stored, or nothing.",
        (("1", "the file is no dump, or the database is not empty"),),
        variables=(URL,),
    ),
    "db psql": Page(
        (
            ("ikigai db psql", "type SQL"),
            ("ikigai db psql -c 'select * from usage_by_day'", "one statement"),
            (r"ikigai db psql -c '\d+ turns'", "what the columns of a view mean"),
        ),
        codes=(("1, 2, 3", "as psql says"),),
        variables=(URL, ("PGPASSWORD and others", "as libpq knows them")),
    ),
    "db purge": Page(
        (
            ("ikigai db purge --match -", "asks for the text, so that no shell keeps it"),
            ("ikigai db purge --ids 45,47-50 --yes", "events, without a question"),
        ),
        codes=(("1", "the word was not typed, or the agent is open elsewhere; nothing is changed"),),
    ),
}

MAIN = """\
commands (each takes --help, with examples):
  ikigai setup                   prepare database and model; can be run again
  ikigai login [PROVIDER]        store a key for a provider; --list, --remove
  ikigai models [PROVIDER]       what the keys at hand can use; --refresh asks
  ikigai config [show|path|init] every setting, its value and its origin
  ikigai history search QUERY    everything ever said; also: list, show ID
  ikigai history export -o FILE  as Markdown, HTML, JSON, JSONL; import FILE
  ikigai agents                  the tree; also: show, rename, kill, revive
  ikigai usage [--plot [FILE]]   tokens and cost, added up or drawn
  ikigai db status|migrate       look after the database; also: dump, restore
  ikigai db psql                 SQL on the log and its views
  ikigai db purge                take a text out of the log for good
  ikigai doctor [--online]       whether all is well; each line has its remedy
  ikigai completion SHELL        for bash, zsh, fish

examples:
  ikigai                                     go on where you were
  ikigai -r docs "and in Hungarian?"         with another agent, asking at once
  git diff | ikigai -p "review this"         answer once, and exit
  ikigai -p @picture.png "what is this?"     with a file or a picture
  ikigai --new -m openai/NAME:high           a fresh agent, another model
  ikigai -p --json "hello" | jq -r .text     for programs

print mode (-p, or when input is piped in):
  --output-format text         the words, as they come, made safe for a
                               terminal also in pipes; --raw: as they are
  --output-format json         one object: text, agent, model, usage, turn
                               (its id), stop; reason if it failed
  --output-format stream-json  one object per line; its type is "event" (as it
                               is in the log), "delta" (words as they come),
                               "thinking", or "result" (the object of json)
  Tools that would need a question are refused, and the model is told; --yolo,
  or the allow-list of [tools] with approval = "auto", lets them run.
  /context, /status, /summary, /cost, /search, /agents, /help, /model and
  /profile are answered without a model; json gives an object of figures.
  /clear, /mark, /rewind, /undo, /budget, /rename, /revive, /kill --yes … do
  what they do and say so; /fork "question" answers in a child.

exit codes:
  0    ok
  1    no model, the provider refuses, or the turn failed
  2    wrong flags or configuration, bad DSN, wrong password, unknown model
  75   try again later: unreachable, still failing after retries, agent held
       by another program
  130  interrupted (SIGINT)
  143  terminated (SIGTERM)

files:
  ~/.config/ikigai/config.toml      your configuration; `ikigai config init`
  ~/.config/ikigai/keys.json        the keys that `ikigai login` stored
  .ikigai/config.toml, AGENTS.md    of a folder that you trust
  ~/.local/share/ikigai/            the embedded database, the local model
  ~/.local/state/ikigai/ikigai.log  what went wrong, and nothing that was said

environment:
  ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY or GOOGLE_API_KEY
  IKIGAI_DATABASE_URL, DATABASE_URL  a PostgreSQL server of your own; as --db,
                                     and may hold the password
  IKIGAI_MODEL                       as -m; so for every key of config.toml
  NO_COLOR, TERM, VISUAL, EDITOR, PAGER, XDG_CONFIG_HOME and the like

Without configuration, key or server it still works: ikigai keeps its own
PostgreSQL in your data folder.
"""


class Formatter(argparse.HelpFormatter):
    """Folds paragraphs, and leaves lines alone that begin with a space."""

    def __init__(self, prog: str, **more: Any) -> None:
        width = min(COLUMNS, max(40, shutil.get_terminal_size().columns)) - 2
        super().__init__(prog, width=width, max_help_position=26, **more)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.split("\n\n")
        return "\n\n".join(
            each if "\n  " in each else textwrap.fill(" ".join(each.split()), width) for each in paragraphs
        )


def complete(parser: argparse.ArgumentParser, path: str = "") -> None:
    """Give the parser and those below it their pages."""
    parser.formatter_class = Formatter
    if page := PAGES.get(path):
        parser.description = parser.description or page.about
        parser.epilog = "\n\n".join(filter(None, (parser.epilog, *_sections(page))))
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                complete(child, f"{path} {name}".strip())


def _sections(page: Page) -> list[str]:
    codes = tuple(sorted((*ALWAYS, *page.codes), key=lambda code: int(code[0].split(",")[0])))
    named = (("examples", page.examples), ("exit codes", codes), ("files", page.files), ("environment", page.variables))
    return [section(name, lines) for name, lines in named if lines]


def section(name: str, lines: Lines) -> str:
    """A heading with its lines; what does not fit beside the first column stands below it."""
    column = min(34, max(len(what) for what, _ in lines)) + 4
    made = [f"{name}:"]
    for what, said in lines:
        told = textwrap.wrap(said, COLUMNS - 2 - column)
        if len(what) + 4 > column:
            made.append(f"  {what}")
        else:
            made.append(f"  {what:<{column - 2}}{told.pop(0)}")
        made += [" " * column + line for line in told]
    return "\n".join(made)
