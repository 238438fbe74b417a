"""Generate the reference pages from the tables that the program itself reads."""

import argparse
import json
import re
from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any

from ikigai.cli import help_pages, run_options, subcommands
from ikigai.config import settings_file
from ikigai.config.key_table import KEY_SPECS, KeyPath
from ikigai.core.commands.key_actions import KEY_ACTIONS, key_label
from ikigai.core.commands.key_help import FIXED_KEYS
from ikigai.core.commands.table import COMMANDS
from ikigai.core.errors import EXIT_CODES
from tests import GOLDEN, ROOT
from tests.docs.markdown import code, page, prose, table

TABLES = {
    "": "Top level",
    "context": "The context window",
    "database": "The database",
    "terminal": "The terminal",
    "tools": "Tools",
    "agents": "Agents that models start",
    "providers": "Providers",
    "models": "Models",
    "profiles": "Profiles",
    "themes": "Themes",
    "keys": "Keys",
}
"""Headings of the tables of the configuration that have one of their own; others have their name alone."""


def settings() -> str:
    """Return the page of all keys of the configuration."""
    tables: dict[str, list[tuple[KeyPath, Any]]] = {}
    about = settings_file.read_help()
    for path, spec in KEY_SPECS.items():
        tables.setdefault(".".join(path[:-1]), []).append((path, spec))
    parts = [
        "Each key has a default and a type. `config.example.toml` has the same keys with the same sentences.\n"
        "[Configuration](configuration.md) says where the file is and which source wins."
    ]
    for name, keys in tables.items():
        heading = TABLES.get(name.partition(".")[0], "")
        shown = name.replace("*", "NAME")
        title = f"## {heading}" if not name else f"## {heading}: `[{shown}]`" if heading else f"## `[{shown}]`"
        rows = [
            (code(path[-1]), code(_toml(spec.default)), prose(spec.allowed), prose(about[path])) for path, spec in keys
        ]
        parts += [title, table(("key", "default", "allowed", "what it does"), rows)]
    return page("Settings", "ikigai/config/key_table.py, config.example.toml", *parts)


def commands() -> str:
    """Return the page of all slash commands."""
    parts = ["A command is typed at the prompt. `/help COMMAND` shows these lines in the program."]
    for heading, group in groupby(COMMANDS, attrgetter("group")):
        parts.append(f"## {heading}")
        for command in group:
            parts.append(f"### /{command.name}")
            parts.append(f"{prose(_sentence(command.help))} {prose(command.more)}".strip())
            lines = [f"- Usage: {code(command.usage.removeprefix('Usage: '))}", f"- Example: {code(command.example)}"]
            if command.aliases:
                lines.append("- Other names: " + ", ".join(code(f"/{alias}") for alias in command.aliases))
            lines.append("- Related: " + ", ".join(f"[`/{each}`](#{each})" for each in command.related.split()))
            parts.append("\n".join(lines))
    return page("Slash commands", "ikigai/core/commands/table.py", *parts)


def keys() -> str:
    """Return the page of all keys at the prompt."""
    rows = [(code(", ".join(map(key_label, each.keys))), prose(each.help), code(each.name)) for each in KEY_ACTIONS]
    return page(
        "Keys",
        "ikigai/core/commands/key_actions.py, ikigai/core/commands/key_help.py",
        "`?` on an empty line and `/keys` show this list in the program, with your own keys.",
        table(("key", "what it does", "action"), rows),
        "The table `[keys]` of the configuration gives an action other keys by its name.",
        "## Fixed keys",
        table(("key", "what it does"), [(code(key), prose(effect)) for key, effect in FIXED_KEYS]),
    )


def exit_codes() -> str:
    """Return the page of the exit codes: of all commands, and of single ones."""
    content = help_pages.load()
    rows = [(f"`{int(each)}`", prose(meaning)) for each, meaning in EXIT_CODES.items()]
    own = [
        (code(f"ikigai {path}"), f"`{number}`", prose(meaning))
        for path, each in content.pages.items()
        for number, meaning in (content.shared[entry] if isinstance(entry, str) else entry for entry in each.codes)
    ]
    return page(
        "Exit codes",
        "ikigai/core/errors.py, ikigai/cli/help_pages.toml",
        table(("code", "meaning"), rows),
        "## Codes of single commands",
        "Some commands give a code a meaning of their own.",
        table(("command", "code", "meaning"), own),
    )


def parsers() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield the words after `ikigai` and the parser of each command, the main one first."""
    yield "", run_options.run_parser()
    beside = subcommands.build_parser(run_options.common_options(), run_options.common_options(argparse.SUPPRESS))

    def below(parser: argparse.ArgumentParser, path: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for name, child in action.choices.items():
                    yield f"{path} {name}".strip(), child
                    yield from below(child, f"{path} {name}".strip())

    yield from below(beside, "")


def command_line() -> str:
    """Return the page of the program's own arguments and of all its commands."""
    content = help_pages.load()
    parts = [
        "`ikigai COMMAND --help` shows these lines in the terminal. `--config`, `--db` and `--debug` go before a "
        "command or after it. `doctor` takes the other options before it, too."
    ]
    for path, parser in parsers():
        parts += [f"## {f'ikigai {path}'.strip()}", prose(_sentence(about(path, parser)))]
        if rows := list(option_rows(path, parser)):
            parts.append(table(("argument", "what it does"), rows))
        if own := content.pages.get(path):
            parts.append("```sh\n" + "\n".join(f"{example:<50} # {what}" for example, what in own.examples) + "\n```")
    parts.append("## Files and variables")
    parts += [f"```text\n{main_section(heading)}\n```" for heading in ("files", "environment")]
    return page("Command line", "ikigai/cli/help_pages.toml and the parsers of ikigai/cli", *parts)


def about(path: str, parser: argparse.ArgumentParser) -> str:
    """Return the description of a command as one line."""
    own = help_pages.load().pages.get(path)
    return re.sub(r"\s+", " ", parser.description or (own.about if own else "")).strip()


def main_section(heading: str) -> str:
    """Return the lines of one section of `ikigai --help`."""
    return help_pages.main_text().partition(f"\n{heading}:\n")[2].partition("\n\n")[0].rstrip("\n")


def option_rows(path: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    """Yield the arguments of a command and their explanations, without the options that all commands share."""
    shared = (
        {option for action in run_options.common_options()._actions for option in action.option_strings}
        if path
        else set()
    )
    for action in parser._actions:
        if not shared & {*action.option_strings} and (row := option_row(action)):
            yield row


def option_row(action: argparse.Action) -> tuple[str, str] | None:
    """Return an option or argument as it is typed and its explanation; None for one that help does not show."""
    if action.help == argparse.SUPPRESS or isinstance(action, (argparse._SubParsersAction, argparse._HelpAction)):
        return None
    choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else ""
    name = action.dest.upper() if action.option_strings else action.dest
    value = "" if action.nargs == 0 else str(action.metavar or choices or name)
    if action.nargs == "?" and action.option_strings:
        value = f"[{value}]"
    typed = ", ".join(action.option_strings) or value
    if action.option_strings and value:
        typed = f"{typed} {value}"
    return code(typed), prose(_sentence(re.sub(r"\s+", " ", (action.help or "a message").replace("%%", "%"))))


def json_objects() -> str:
    """Return the page of all objects that are printed as JSON."""
    schema = json.loads((ROOT / "docs" / "reference" / "json-schema.json").read_text())
    parts = [
        prose(schema["description"]) + "\n\nThe schema itself is [json-schema.json](json-schema.json).",
    ]
    for name, record in schema["$defs"].items():
        if record.get("type") != "object" or not record.get("properties"):
            continue
        required = record.get("required", ())
        rows = [
            (code(field), prose(_json_type(spec)), "yes" if field in required else "")
            for field, spec in record["properties"].items()
        ]
        about = re.sub(r"\s+", " ", record.get("description", ""))
        parts += [f"## {name}", prose(about), table(("field", "type", "always there"), rows)]
    return page("JSON output", "docs/reference/json-schema.json", *parts)


def views() -> str:
    """Return the page of all views of the database, from the golden file of its schema."""
    text = (GOLDEN / "schema.txt").read_text()
    made = "\n".join(file.read_text() for file in sorted((ROOT / "migrations").glob("*.sql")))
    names = dict.fromkeys(re.findall(r"^create (?:or replace )?view (\w+)", made, re.MULTILINE))
    parts = ["`ikigai db psql -c '\\d+ turns'` shows the columns of a view in the terminal."]
    for name in names:
        (about,) = re.findall(rf"^table {name}  -- (.*)$", text, re.MULTILINE)
        columns = re.findall(rf"^column {name}\.(\w+) (.*?)(?: not null.*?)?(?:  -- (.*))?$", text, re.MULTILINE)
        rows = [(code(column), type_name, prose(comment)) for column, type_name, comment in columns]
        parts += [f"## {name}", prose(about), table(("column", "type", "what it holds"), rows)]
    return page("SQL views", "the comments of migrations/, as in tests/golden/schema.txt", *parts)


def _toml(value: object) -> str:
    """Return the value as it stands in the file."""
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


def _sentence(text: str) -> str:
    text = text.strip()
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '?')) else '.'}" if text else ""


def _json_type(spec: dict[str, Any]) -> str:
    """Return the type of a field in words."""
    if "$ref" in spec:
        return spec["$ref"].rpartition("/")[2]
    if "const" in spec:
        return json.dumps(spec["const"])
    if "enum" in spec:
        return " or ".join(map(json.dumps, spec["enum"]))
    if "anyOf" in spec:
        return " or ".join(map(_json_type, spec["anyOf"]))
    if spec.get("type") == "array":
        items = spec.get("items")
        return f"list of {_json_type(items)}" if isinstance(items, dict) else "list"
    return str(spec.get("type", "any value"))
