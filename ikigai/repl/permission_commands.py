"""/approve, /tools, /trust and the user's own !command: what is allowed here, seen and changed by the user."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ikigai.app.tool_runtime import standing_file
from ikigai.config import trusted_folders as trust
from ikigai.core.commands.arguments import is_id
from ikigai.core.errors import ConfigError, IkigaiError, Refused
from ikigai.core.questions import Answered, Question, yes_or_no
from ikigai.core.sanitize import clean_line
from ikigai.core.state import inputs
from ikigai.core.state.memory import Memory
from ikigai.core.state.project_limits import ALL, stricter
from ikigai.core.state.settings import chosen
from ikigai.tools.approval import standing_approvals as standing
from ikigai.tools.approval.gate import mode
from ikigai.tools.approval.policy import Mode, following

if TYPE_CHECKING:
    from ikigai.app.project import Project
    from ikigai.app.tool_runtime import Workshop
    from ikigai.config.project_files import OwnFile

MEANS = {
    Mode.READ_ONLY: "files can be read, nothing can be changed or run",
    Mode.ASK: "reading in the working directory is free, all else asks",
    Mode.EDITS: "edits in the working directory run, all else asks",
    Mode.AUTO: "edits and commands of the allow-list run, all else asks",
    Mode.YOLO: "everything runs without asking",
}
LONGEST = 100_000
"""Bytes of a command's output that go into the conversation."""
SHOWN_LINES, SHOWN_BYTES = 8, 4_000
"""How much of a changed text is shown in the question about it."""


async def approve(argument: str, memory: Memory, ask: Callable[[Question], Awaitable[Answered]]) -> str | inputs.Change:
    """What /approve shows, or the change that it asks for. Raises Refused."""
    word, _, rest = argument.partition(" ")
    if not word:
        return _shown(memory)
    if word == "revoke":
        return _revoked(rest.strip())
    if word == "default":
        return inputs.Change({"approval": None})
    if word not in list(Mode):
        raise Refused(f"{clean_line(word)!r} is no approval mode.", f"Modes: {', '.join(Mode)}; or: revoke N")
    if word == Mode.YOLO:
        chosen(memory, {"approval": word})  # what would be refused is not asked about
        lines = ("Models can then run any command and change any file of yours, unseen.",)
        if (await ask(yes_or_no("Run everything without asking?", lines))).key != "y":
            return "Nothing was changed."
    return inputs.Change({"approval": word})


def cycled(memory: Memory) -> inputs.Change:
    """What Shift+Tab does: the next mode, of those that the project lets be chosen."""
    now = mode(memory.settings)
    modes, most = [following(now)], memory.run.bounds.approval
    while most and modes[-1] != now and stricter(modes[-1], most) != modes[-1]:
        modes.append(following(modes[-1]))
    return inputs.Change({"approval": modes[-1].value})


def _shown(memory: Memory) -> str:
    now = mode(memory.settings)
    rows = [f"Approval: {now}: {MEANS[now]}."]
    if most := memory.run.bounds.approval:
        rows.append(f"Here it can be {most} at most, by the {clean_line(memory.run.bounds.origins['approval'])}.")
    kept = standing.approved(standing_file())
    rows += [
        f"{number}  {clean_line(each.tool)}  {clean_line(each.shown)}  in {clean_line(each.directory)}"
        for number, each in enumerate(kept.values(), 1)
    ]
    rows.append("/approve MODE changes it; Shift+Tab goes through the modes." + " /approve revoke N" * bool(kept))
    return "\n".join(rows)


def _revoked(number: str) -> str:
    kept = list(standing.approved(standing_file()).items())
    if not is_id(number) or int(number) > len(kept):
        raise Refused(
            f"{number!r} is none of what is approved for always." if number else "Which?", "/approve lists them."
        )
    fingerprint, given = kept[int(number) - 1]
    standing.revoke(standing_file(), fingerprint)
    return f"Asked about again: {clean_line(given.tool)} {clean_line(given.shown)}"


def tools(argument: str, memory: Memory) -> str | inputs.Change:
    """What /tools shows, or the change that it asks for. Raises Refused."""
    sets = dict.fromkeys(sorted({tool.set for tool in memory.run.tools}))
    off = [name for name in str(memory.settings.get("tools_off") or "").split(",") if name]
    off = list(sets) if ALL in off else off
    if not argument:
        if not sets:
            return "Models have no tools here (--no-tools, or enabled = false under [tools])."
        rows = [] if memory.limits.tools else [f"{memory.model} takes no tools: it is offered none of these."]
        for name in sets:
            names = ", ".join(tool.name for tool in memory.run.tools if tool.set == name)
            rows.append(f"{'off' if name in off else 'on ':3}  {name}: {names}")
        return "\n".join((*rows, "/tools off SET and /tools on SET switch them."))
    word, _, name = argument.partition(" ")
    name = name.strip()
    if word not in ("on", "off") or name not in sets:
        raise Refused(f"/tools cannot {clean_line(argument)!r}.", f"Write on or off, and one of: {', '.join(sets)}")
    left = {*off, name} if word == "off" else {*off} - {name}
    value, others = ",".join(sorted(left)), {key: each for key, each in memory.own.items() if key != "tools_off"}
    is_given = value == str(memory.run.resolve(others).get("tools_off") or "")  # by a profile, or by nobody
    return inputs.Change({"tools_off": None if is_given else value})


async def asked(project: Project, brings: Sequence[str], ask: Callable[[Question], Awaitable[Answered]]) -> None:
    """Ask whether the folder is trusted; a no holds for this run, and so does a yes that cannot be kept."""
    names, tools = project.files, project.executables
    lines = (
        f"{clean_line(str(project.folder))} has {', '.join(brings)}.",
        "Trusted, it tells models what to do, its tools are offered to them, and its settings can forbid them things. "
        "Nothing of it has been read yet.",
        *_runs(tools),
    )
    if (await ask(yes_or_no("Trust this folder?", lines))).key != "y":
        return
    try:
        _keep(project, project.digests(project.read(names)))
    except ConfigError as error:
        project.problems.append(f"The folder is not trusted. {error} Then type /trust yes.")


async def asked_about_changes(project: Project, ask: Callable[[Question], Awaitable[Answered]]) -> None:
    """Ask about the files of a trusted folder that have come or changed; after a no they are left out.

    Raises ConfigError when its settings cannot be used and the answer was yes.
    """
    if not (changes := project.changes()):
        return
    rows = [f"{_how(project, name, own)}: {clean_line(name)}" for name, own in changes.items()]
    lines = (
        f"In {clean_line(str(project.folder))}, since you trusted it:",
        *rows,
        *(line for own in changes.values() for line in _beginning(own.head)),
        *_runs([name for name in changes if name in project.executables]),
    )
    if (await ask(yes_or_no("Trust these files as they are now?", lines))).key != "y":
        return
    try:
        _keep(project, {**project.approved, **project.digests(changes)})
    except ConfigError as error:
        raise ConfigError(error.what, f"{error.remedy} Or start ikigai again and answer n.") from None


def _how(project: Project, name: str, own: OwnFile) -> str:
    return "new" if name not in project.approved else "changed" if own.digest else "gone"


def _runs(tools: Sequence[str]) -> tuple[str, ...]:
    """The line that says which programs a yes runs; none without programs."""
    return (f"A yes runs these programs, now and at every start: {clean_line(', '.join(tools))}.",) if tools else ()


def _beginning(head: bytes) -> list[str]:
    """How a changed text begins."""
    text = head[:SHOWN_BYTES].decode(errors="replace").splitlines()
    more = ["…"] if len(text) > SHOWN_LINES or len(head) > SHOWN_BYTES else []
    return [f"  {clean_line(line)}" for line in text[:SHOWN_LINES]] + more


def _keep(project: Project, files: dict[str, str]) -> None:
    """Trust the folder with these files; for this run only if that cannot be kept."""
    try:
        project.trust(time.time(), files)
    except IkigaiError as error:
        project.trust_for_run(files)
        project.problems.append(f"{error} The folder is trusted for this run only.")


def trusted(argument: str, project: Project) -> str:
    """What /trust shows, or has done. Raises IkigaiError, Refused."""
    word, _, folder = argument.partition(" ")
    match word:
        case "":
            return _trust_shown(project)
        case "yes" if not folder:
            return f"Trusted: {clean_line(project.trust(time.time()))}\n{_effect(project)}"
        case "no" if not folder or _is(project, folder):
            refused = "\nIts tools are refused from now on, and offered no more from the next start on."
            was = project.revoke()
            said = f"{'Trusted no more' if was else 'Was not trusted'}: {clean_line(str(project.folder))}"
            return said + refused * (was and project.tools.is_dir())
        case "no":
            if not trust.revoke(project.file, Path(folder.strip()).expanduser()):
                raise Refused(f"{clean_line(folder.strip())} is not trusted.", "/trust lists what is.")
            return f"Trusted no more: {clean_line(folder.strip())}"
        case _:
            raise Refused(f"/trust cannot {clean_line(argument)!r}.", "Write yes, no, or no and a folder of the list.")


def _is(project: Project, folder: str) -> bool:
    return Path(folder.strip()).expanduser() == project.folder


def _trust_shown(project: Project) -> str:
    here = f"{clean_line(str(project.folder))} is {'trusted' if project.trusted else 'not trusted'}."
    brings = f"It has {', '.join(project.brings) or 'nothing that this is about'}."
    if changes := project.changes():
        brings += f" Come or changed since, and not used: {clean_line(', '.join(changes))}."
    kept = trust.trusted(project.file)
    rows = [f"{time.strftime('%Y-%m-%d', time.localtime(since))}  {clean_line(path)}" for path, since in kept.items()]
    listed = ("Trusted folders, and since when:", *rows) if rows else ()
    return "\n".join((f"{here} {brings}", *listed, "/trust yes and /trust no change it; /trust no FOLDER another one."))


def _effect(project: Project) -> str:
    said = "Its instructions, if it has any, go with the next message."
    later = project.tools.is_dir() or project.config.exists()
    return f"{said} Its tools and settings are used from the next start on." if later else said


async def ran(workshop: Workshop, line: str, progress: Callable[[str], None]) -> str:
    """Run the user's own command, as long as it takes, and return what came of it as text."""
    from ikigai.tools.shell.exit_report import told
    from ikigai.tools.shell.output_buffer import shortened
    from ikigai.tools.shell.run import run

    folder = Path(workshop.directory)
    finished = await run(line, folder, workshop.environment, None, progress)
    return shortened(told(finished, "", ""), LONGEST)
