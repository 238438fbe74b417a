"""Carry out /approve, /tools and /trust: show and change permissions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ikigai.app.project.instruction_files import decode
from ikigai.app.tools.tool_runtime import approvals_file
from ikigai.config.project import trusted_folders
from ikigai.core.commands.arguments import is_id, quoted
from ikigai.core.errors import ConfigError, IkigaiError, Rejected, WrongArgument
from ikigai.core.events.events import Choices
from ikigai.core.secrets.secret_variables import is_secret
from ikigai.core.state import inputs
from ikigai.core.state.decisions.settings import chosen_settings
from ikigai.core.state.memory import Memory
from ikigai.core.text.sanitize import clean_line
from ikigai.core.tools.approval_mode import ApprovalMode
from ikigai.core.tools.tool_selection import ToolSelection
from ikigai.core.tools.vendor_search import VENDOR_SEARCH
from ikigai.core.views.questions import Question, QuestionAnswer, yes_or_no
from ikigai.system.paths import expand_home
from ikigai.tools.approval import standing_approvals

if TYPE_CHECKING:
    from ikigai.app.project.trusted_project import Project
    from ikigai.config.project.project_files import OwnFile

Ask = Callable[[Question], Awaitable[QuestionAnswer]]

MCP_FILE = ".mcp.json"
SHOWN_LINES, SHOWN_BYTES, SHOWN_TEXTS = 8, 4_000, 20
"""Lines and bytes of a changed text that the question about it shows, and the most texts."""


async def run_approve(argument: str, memory: Memory, ask: Ask, key: str = "") -> str | inputs.Change:
    """Return the text that /approve shows, or the change that it makes. Raise Rejected for a bad argument.

    `key` chooses the next mode; "" if no key does.
    """
    word, _, rest = argument.partition(" ")
    if not word:
        return _format_approval(memory, key)
    if word == "revoke":
        return _revoke(rest.strip())
    if word == "default":
        return inputs.Change({"approval": None})
    if word not in list(ApprovalMode):
        raise WrongArgument(
            f"{quoted(clean_line(word))} is not an approval mode.", f"Modes: {', '.join(ApprovalMode)}."
        )
    if word == ApprovalMode.YOLO:
        chosen_settings(memory, {"approval": word})  # what would be refused is not asked about
        lines = ("Models will be able to run any command and change any of your files without asking.",)
        if (await ask(yes_or_no("Run everything without asking?", lines))).key != "y":
            return "Nothing was changed."
    return inputs.Change({"approval": word})


def next_approval_mode(memory: Memory, announced: Choices) -> inputs.Change:
    """Return the change of the key for that: the next approval mode that the project allows.

    It follows the mode in `announced`, where the key was pressed a moment ago and the change is not stored yet.
    """
    now = ApprovalMode.of(announced if "approval" in announced else memory.settings)
    modes, limit = [now.following()], memory.run.project_limits.approval
    while modes[-1] != now and modes[-1].stricter(limit) != modes[-1]:
        modes.append(modes[-1].following())
    return inputs.Change({"approval": modes[-1].value})


def describe_mode(change: inputs.Change, directory: Path) -> str:
    """Return the sentence about a chosen approval mode, which holds at once."""
    edits = f"Edits in {clean_line(str(directory))}"
    return {
        ApprovalMode.READ_ONLY: "Nothing is changed or run now.",
        ApprovalMode.ASK: "Edits and commands ask first now.",
        ApprovalMode.EDITS: f"{edits} run without a question now.",
        ApprovalMode.AUTO: f"{edits} and commands of the allow-list run without a question now.",
        ApprovalMode.YOLO: "Everything runs without a question now.",
    }[ApprovalMode(change.values["approval"])]


def _format_approval(memory: Memory, key: str) -> str:
    now = ApprovalMode.of(memory.settings)
    rows = [f"Approval mode: {now} ({now.meaning})."]
    if (limit := memory.run.project_limits.approval) is not ApprovalMode.YOLO:
        rows.append(
            f"The highest mode here is {limit}, set by the {clean_line(memory.run.project_limits.origins['approval'])}."
        )
    approvals = standing_approvals.list_approvals(approvals_file())
    rows += [
        f"{number}  {clean_line(each.tool)}  {'rule: ' if each.rule else ''}{clean_line(each.shown)}"
        f"  in {clean_line(each.directory)}"
        for number, each in enumerate(approvals.values(), 1)
    ]
    rows.append("/approve MODE changes it" + (f", {key} chooses the next mode." if key else "."))
    rows += ["/approve revoke N revokes a standing approval."] * bool(approvals)
    return "\n".join(rows)


def _revoke(number: str) -> str:
    approvals = list(standing_approvals.list_approvals(approvals_file()).items())
    if not is_id(number) or int(number) > len(approvals):
        problem = (
            f"There is no standing approval {quoted(number)}."
            if number
            else "Add the number of the approval; /approve lists them."
        )
        raise WrongArgument(problem, "/approve lists them.")
    fingerprint, approval = approvals[int(number) - 1]
    standing_approvals.revoke(approvals_file(), fingerprint)
    return f"Approval revoked: {clean_line(approval.tool)} {clean_line(approval.shown)}"


def run_tools(argument: str, memory: Memory) -> str | inputs.Change:
    """Return the text that /tools shows, or the change that it makes. Raise Rejected for a bad argument."""
    sets = dict.fromkeys(sorted({tool.set for tool in memory.run.tools}))
    selection = ToolSelection.of(memory.settings)
    if not argument:
        if not sets:
            return "Models have no tools here (--no-tools, or enabled = false under [tools])."
        rows = [] if memory.limits.tools else [f"{memory.model} does not support tools: it is offered none of these."]
        for name in sets:
            names = ", ".join(tool.name for tool in memory.run.tools if tool.set == name)
            lacks = name == VENDOR_SEARCH and not memory.limits.vendor_search
            note = f" (not with {memory.model})" * lacks
            rows.append(f"{'off' if selection.is_off(name) else 'on ':3}  {name}: {names}{note}")
        return "\n".join((*rows, "/tools off SET and /tools on SET switch them."))
    word, _, name = argument.partition(" ")
    name = name.strip()
    if word not in ("on", "off") or name not in sets:
        problem = f"There is no tool set {quoted(clean_line(name))}." if word in ("on", "off") and name else ""
        problem = problem or f"/tools does not take {quoted(clean_line(argument))}."
        raise WrongArgument(problem, f"Sets: {', '.join(sets) or 'none'}.")
    if name == VENDOR_SEARCH and word == "on" and not memory.limits.vendor_search:
        what = f"{memory.model or 'The model'} has no web search of its vendor that ikigai can use"
        why = memory.limits.no_vendor_search
        raise Rejected(
            f"{what}: {why}." if why else f"{what}.",
            'Models of Anthropic and OpenAI, and Gemini 3, have one; docs: guide/tools, "Web search".',
        )
    chosen = selection.switched(name, word == "on", sets)
    others = {key: each for key, each in memory.own.items() if key != "tools_off"}
    inherited = ToolSelection.of(memory.run.resolve(others))  # by a profile, or the default
    return inputs.Change({"tools_off": None if chosen.is_like(inherited) else chosen.text})


async def ask_trust(
    project: Project, brings: Sequence[str], ask: Ask, withholds: Callable[[str], bool] = is_secret
) -> None:
    """Ask the user to trust the folder. A no holds for this run, and so does a yes that cannot be stored."""
    names, tools = project.files, project.executables
    lines = (
        f"{clean_line(str(project.folder))} has {', '.join(brings)}.",
        "If you trust it, models get its instructions, skills and tools, and its settings can restrict them. "
        f"Nothing of it has been read yet{f', but {MCP_FILE}' * (MCP_FILE in brings)}.",
        *_executables_line(tools),
    )
    servers = project.read([MCP_FILE] if MCP_FILE in brings else [])
    lines += _server_lines(servers, withholds)
    if (await ask(yes_or_no("Trust this folder?", lines))).key != "y":
        return
    try:
        _store_trust(project, project.digests({**project.read(names), **servers}))
    except ConfigError as error:
        project.problems.append(f"The folder is not trusted. {error} Then type /trust yes.")


async def ask_about_changes(project: Project, ask: Ask, withholds: Callable[[str], bool] = is_secret) -> None:
    """Ask about the new and changed files of a trusted folder; after a no they are left out.

    Raise ConfigError when its settings cannot be used and the answer was yes.
    """
    if not (changes := project.changes()):
        return
    rows = [f"{_describe_change(project, name, own)}: {clean_line(name)}" for name, own in changes.items()]
    heads = [own.head for name, own in changes.items() if name != MCP_FILE]
    lines = (
        f"In {clean_line(str(project.folder))}, since you trusted it:",
        *rows,
        *(line for head in heads[:SHOWN_TEXTS] for line in _first_lines(head)),
        *([f"… and {len(heads) - SHOWN_TEXTS:,} more files"] if len(heads) > SHOWN_TEXTS else []),
        *_server_lines(changes, withholds),
        *_executables_line([name for name in changes if name in project.executables]),
    )
    if (await ask(yes_or_no("Trust these files as they are now?", lines))).key != "y":
        return
    try:
        _store_trust(project, {**project.approved, **project.digests(changes)})
    except ConfigError as error:
        raise ConfigError(error.what, f"{error.remedy} Or start ikigai again and answer n.") from None


async def ask_about_plugins(ask: Ask) -> None:
    """Ask about plugins whose content has changed since they were added; after a no they are left out. Raise
    IkigaiError.
    """
    from ikigai.app.plugins.installed import add_plugin, changed_plugins
    from ikigai.app.plugins.plugin import describe_plugin
    from ikigai.app.plugins.plugin_digest import digest_of

    for plugin in await asyncio.to_thread(changed_plugins):
        digest = await asyncio.to_thread(digest_of, plugin.folder)
        lines = ("A plugin has changed since you added it. It brings now:", *describe_plugin(plugin))
        if (await ask(yes_or_no(f"Use the plugin {plugin.name} as it is now?", lines))).key == "y":
            await asyncio.to_thread(add_plugin, plugin, digest)


def _describe_change(project: Project, name: str, own: OwnFile) -> str:
    return "new" if name not in project.approved else "changed" if own.digest else "gone"


def _executables_line(tools: Sequence[str]) -> tuple[str, ...]:
    """Return the line that names the programs which a yes runs; no line without programs."""
    return (f"Yes runs these programs, now and at every start: {clean_line(', '.join(tools))}.",) if tools else ()


def _first_lines(head: bytes) -> list[str]:
    """Return the first lines of a changed text."""
    text = decode(head[:SHOWN_BYTES]).splitlines()
    more = ["…"] if len(text) > SHOWN_LINES or len(head) > SHOWN_BYTES else []
    return [f"  {clean_line(line)}" for line in text[:SHOWN_LINES]] + more


def _server_lines(files: Mapping[str, OwnFile], withholds: Callable[[str], bool]) -> tuple[str, ...]:
    """Return the lines about the MCP servers that a yes starts, each in full; none without such a file."""
    from ikigai.app.project.project_servers import describe_project_servers

    servers = describe_project_servers(files[MCP_FILE].head, withholds) if MCP_FILE in files else []
    return (f"Yes starts these MCP servers of {MCP_FILE}, now and at every start:", *servers) if servers else ()


def _store_trust(project: Project, files: dict[str, str]) -> None:
    """Trust the folder with these files; for this run only if that cannot be stored."""
    try:
        project.trust(time.time(), files)
    except IkigaiError as error:
        project.trust_for_run(files)
        project.problems.append(f"{error} The folder is trusted for this run only.")


def run_trust(argument: str, project: Project) -> str:
    """Carry out /trust and return the text that it shows. Raise Rejected or another IkigaiError."""
    word, _, folder = argument.partition(" ")
    match word:
        case "":
            return _format_trust(project)
        case "yes" if not folder:
            return f"Trusted: {clean_line(project.trust(time.time()))}\n{_trust_effect(project)}"
        case "no" if not folder or _is_project_folder(project, folder):
            tools_refused = "\nIts tools are no longer offered, and calls of them are refused."
            was = project.revoke()
            folder = clean_line(str(project.folder))
            text = f"No longer trusted: {folder}" if was else f"{folder} was not trusted; nothing changed."
            return text + tools_refused * (was and project.tools.is_dir())
        case "no":
            if not trusted_folders.revoke(project.file, expand_home(folder.strip())):
                raise Rejected(f"{clean_line(folder.strip())} is not trusted.", "/trust lists the trusted folders.")
            project.check_trust_above()
            return f"No longer trusted: {clean_line(folder.strip())}"
        case _:
            raise WrongArgument(f"/trust does not take {quoted(clean_line(argument))}.")


def _is_project_folder(project: Project, folder: str) -> bool:
    return expand_home(folder.strip()) == project.folder


def _format_trust(project: Project) -> str:
    here = f"{clean_line(str(project.folder))} is {'trusted' if project.trusted else 'not trusted'}."
    contents = f"It has {', '.join(project.contents) or 'no AGENTS.md, tools, settings or MCP servers'}."
    if changes := project.changes():
        contents += f" Added or changed since you trusted it, and not used: {clean_line(', '.join(changes))}."
    trusted = trusted_folders.list_trusted(project.file)
    rows = [f"{time.strftime('%Y-%m-%d', time.localtime(at))}  {clean_line(path)}" for path, at in trusted.items()]
    listed = ("Trusted folders, and since when:", *rows) if rows else ()
    how = "/trust yes or /trust no changes this; /trust no FOLDER changes another folder."
    return "\n".join((f"{here} {contents}", *listed, how))


def _trust_effect(project: Project) -> str:
    text = "Its AGENTS.md, if there is one, is used from the next message on."
    later = project.tools.is_dir() or project.config.exists() or (project.folder / MCP_FILE).exists()
    return f"{text} Its tools, settings and MCP servers are used from the next start on." if later else text
