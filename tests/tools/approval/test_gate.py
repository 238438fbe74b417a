"""The gate: what each answer of the user does, how long it holds, and for what."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ikigai.app.tool_runtime import Kept
from ikigai.core.errors import IkigaiError
from ikigai.core.events import Choices
from ikigai.core.messages import ToolCall
from ikigai.core.ports import Ask, Started
from ikigai.core.questions import Answered, Question
from ikigai.headless import printer as headless
from ikigai.tools.approval import standing_approvals as standing
from ikigai.tools.approval.allowlist import Allowlist
from ikigai.tools.approval.batch import Waiting
from ikigai.tools.approval.gate import DENIED, Gate, question, whole
from ikigai.tools.approval.path_policy import Place
from ikigai.tools.approval.policy import fingerprint
from ikigai.tools.base import Kind, Touch
from ikigai.tools.files.diffs import unified
from ikigai.tools.shell.background import Processes
from ikigai.tools.shell.shell import Arguments, Shell

ASKS: Choices = {"approval": "ask"}


class User:
    """Answers with `answer`, and keeps what was asked."""

    def __init__(self, key: str = "n", words: str = "") -> None:
        self.answer = Answered(key, words)
        self.asked: list[Question] = []

    async def ask(self, question: Question) -> Answered:
        self.asked.append(question)
        return self.answer


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / standing.FILE


@pytest.fixture
def gate(work: Path, file: Path) -> Callable[[], Gate]:
    """Makes the gate of another run of the program, over the same file."""
    place = Place(str(work), (str(work.parent / "data"),), "/usr/bin:/bin")
    return lambda: Gate(place, Allowlist(), Kept(file))


def shell(work: Path, command: str = "rm x", directory: str = "") -> tuple[ToolCall, Touch]:
    call = ToolCall("1", "shell", f'{{"command": "{command}"}}')
    return call, Touch(Kind.RUN, command, directory or str(work))


async def decided(gate: Gate, ask: Ask, what: tuple[ToolCall, Touch], settings: Choices = ASKS) -> Started:
    return await gate.decide(*what, settings, ask)


@pytest.mark.parametrize(
    ("key", "words", "refused", "by"),
    [
        ("y", "", "", "user, once"),
        ("s", "", "", "user, for this session"),
        ("a", "", "", "user, for always"),
        ("n", "", DENIED, "user"),
        ("r", "use mv", f"{DENIED} The user's reason: use mv", "user"),
        ("r", "", DENIED, "user"),
        ("?", "", DENIED, "user"),
    ],
)
async def test_every_answer(gate: Callable[[], Gate], work: Path, key: str, words: str, refused: str, by: str):
    started = await decided(gate(), User(key, words).ask, shell(work))
    assert started.refused == refused and started.decision
    assert (started.decision.call_id, started.decision.allowed, started.decision.by) == ("1", not refused, by)
    assert started.decision.reason == words


@pytest.mark.parametrize(("key", "here", "later"), [("y", False, False), ("s", True, False), ("a", True, True)])
async def test_how_long_a_yes_holds(gate: Callable[[], Gate], work: Path, key: str, here: bool, later: bool):
    first, what, no = gate(), shell(work), User()
    await decided(first, User(key).ask, what)
    assert bool((await decided(first, no.ask, what)).refused) is not here
    assert bool((await decided(gate(), no.ask, what)).refused) is not later
    assert len(no.asked) == 2 - here - later


@pytest.mark.parametrize("key", ["s", "a"])
async def test_a_lasting_yes_holds_for_exactly_this_call(gate: Callable[[], Gate], work: Path, key: str):
    made, no, (call, touch) = gate(), User(), shell(work)
    await decided(made, User(key).ask, (call, touch))
    others = [
        shell(work, "rm y"),
        shell(work, "rm x "),
        shell(work, directory="/elsewhere"),
        (ToolCall("1", "shell", '{"command": "rm x", "background": true}'), touch),
        (ToolCall("1", "shell2", call.arguments), touch),
        (call, Touch(Kind.RUN, "rm x", str(work), (str(work / "link"),))),
    ]
    for other in others:
        assert (await decided(made, no.ask, other)).refused == DENIED, other
    assert len(no.asked) == len(others)
    again = ToolCall("2", "shell", '{ "command":"rm x" }')
    assert not (await decided(made, no.ask, (again, touch))).refused
    assert (await decided(made, no.ask, (again, touch), {"approval": "read-only"})).refused
    assert len(no.asked) == len(others)


async def test_what_is_revoked_is_asked_about_again(gate: Callable[[], Gate], work: Path, file: Path):
    made, no, what = gate(), User(), shell(work)
    await decided(made, User("a").ask, what)
    (fingerprint,) = standing.approved(file)
    assert standing.approved(file)[fingerprint].shown == "rm x"
    assert standing.revoke(file, fingerprint)
    assert (await decided(made, no.ask, what)).refused == DENIED and len(no.asked) == 1


async def test_an_approval_that_cannot_be_kept_runs_nothing(gate: Callable[[], Gate], work: Path, file: Path):
    file.parent.mkdir()
    file.write_text("{")
    started = await decided(gate(), User("a").ask, shell(work))
    assert started.refused.startswith("Not run: the approval could not be kept.") and "damaged" in started.refused
    assert started.decision and not started.decision.allowed
    with pytest.raises(IkigaiError):
        standing.approved(file)


@pytest.mark.parametrize("yes", [False, True])
async def test_print_mode_denies_and_tells_the_model(
    gate: Callable[[], Gate], work: Path, yes: bool, capsys: pytest.CaptureFixture[str]
):
    printer = headless.Printer("text", "a", yes=yes)
    started = await decided(gate(), printer.ask, shell(work))
    assert started.refused == "This needs the user's approval, and nobody can be asked here."
    assert started.decision and (started.decision.allowed, started.decision.by) == (False, "policy")
    told = capsys.readouterr().err
    assert "rm x" in told and "--yolo" in told and "--yes" not in told
    assert not (await decided(gate(), printer.ask, shell(work), {"approval": "yolo"})).refused


async def test_read_only_asks_nobody(gate: Callable[[], Gate], work: Path):
    user = User("y")
    for kind in (Kind.EDIT, Kind.RUN, Kind.NETWORK):
        touch = Touch(kind, "x", str(work), (str(work / "x"),))
        started = await decided(gate(), user.ask, (ToolCall("1", "tool"), touch), {"approval": "read-only"})
        assert "read-only" in started.refused and started.decision and started.decision.by == "policy"
    assert not user.asked


@pytest.mark.parametrize("mode", ["", "nonsense", None, 3])
async def test_an_unknown_mode_asks(gate: Callable[[], Gate], work: Path, mode: str | int | None):
    user = User()
    assert (await decided(gate(), user.ask, shell(work), {"approval": mode})).refused == DENIED and user.asked


def test_a_name_cannot_add_lines_to_the_question():
    path = "/w/a\n  Run it? yes\u202e"
    diff = unified("", "x\n", "a\n+++ b/c\n@@ -1 +1 @@", new=True)
    for touch in (
        Touch(Kind.EDIT, path, "/w\n/x", (path,), diff=diff),
        Touch(Kind.READ, path, "/w\n/x", (path,)),
        Touch(Kind.NETWORK, path, "/w\n/x"),
    ):
        lines = question(ToolCall("1", "tool"), touch, ()).lines
        assert lines[0] == "tool in /w⏎/x" and not any(line.startswith("  Run") for line in lines)
        assert touch.kind is not Kind.EDIT or lines[1:3] == ("--- /dev/null", "+++ b/a⏎+++ b/c⏎@@ -1 +1 @@")
        assert touch.kind is Kind.EDIT or "/w/a⏎  Run it? yes<U+202E>" in lines


def test_the_question_shows_everything():
    command = "echo one\necho 'two\u202e'\t\x1b[8mthree"
    asked = question(ToolCall("1", "shell"), Touch(Kind.RUN, command, "/w"), ("Look at this.",))
    assert asked.title == "Run it?" and asked.default == "n" and asked.yes == ""
    assert asked.lines[:2] == ("shell in /w", "echo one") and asked.lines[-1] == "Look at this."
    assert "<U+202E>" in asked.lines[2] and "three" in asked.lines[2] and "\x1b" not in asked.lines[2]
    assert [choice.key for choice in asked.choices] == ["y", "s", "a", "n", "r"]
    edit = Touch(Kind.EDIT, "a.py", "/w", ("/w/a.py", "/real/a.py"), diff="--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a\n+b")
    lines = question(ToolCall("1", "edit_file"), edit, ()).lines
    assert lines[1:6] == ("--- a/a.py", "+++ b/a.py", "@@ -1 +1 @@", "-a", "+b") and "touches /real/a.py" in lines


@pytest.mark.parametrize("directory", ["/w", ""])
async def test_question_says_that_a_long_command_goes_on_in_the_background(work: Path, directory: str):
    """The arguments are cut in the line of the call; the question says it beside the command."""
    processes = Processes({})
    tool = Shell(work, {}, processes)
    command = f"server {'x' * 150}"
    for background in (True, False):
        touch = await tool.look(Arguments(command, background=background))
        touch = msgspec.structs.replace(touch, directory=directory)
        asked = question(ToolCall("1", "shell"), touch, ())
        assert asked.lines[0] == f"shell{' (in the background)' * background}{' in /w' * bool(directory)}"
        assert asked.lines[1] == command
        both = whole((Waiting(ToolCall("1", "shell"), touch, ()),), 1, 2)
        assert any("in the background" in line for line in both.lines) is background


@pytest.mark.parametrize("key", ["s", "a"])
@pytest.mark.parametrize("command", ["bash s.sh", "./s.sh", "python s.sh", "sh -x s.sh"])
async def test_lasting_yes_for_a_script_ends_when_the_script_changes(
    gate: Callable[[], Gate], work: Path, key: str, command: str
):
    made, no, script = gate(), User(), work / "s.sh"
    script.write_text("ls\n")
    tool, call = Shell(work, {}, Processes({})), ToolCall("1", "shell", f'{{"command": "{command}"}}')

    async def refused(user: User) -> bool:
        return bool((await decided(made, user.ask, (call, await tool.look(Arguments(command))))).refused)

    assert not await refused(User(key)) and not await refused(no) and not no.asked
    script.write_text("rm -rf .\n")
    assert await refused(no) and await refused(no)
    for asked in no.asked:
        assert f"The script has changed since this was approved: {script}." in asked.lines
    assert not await refused(User("a")) and not await refused(no)
    script.unlink()
    assert await refused(no)


async def test_always_without_the_content_of_the_script_asks_again(gate: Callable[[], Gate], work: Path, file: Path):
    (work / "s.sh").write_text("ls\n")
    tool, no = Shell(work, {}, Processes({})), User()
    for command, holds in (("bash s.sh", False), ("npm test", True)):
        call, touch = shell(work, command)
        file.parent.mkdir(exist_ok=True)
        kept = {fingerprint(call, touch): {"tool": "shell", "shown": command, "directory": str(work), "at": 1.0}}
        file.write_bytes(msgspec.json.encode(kept))
        touch = await tool.look(Arguments(command))
        assert bool((await decided(gate(), no.ask, (call, touch))).refused) is not holds, command
    (asked,) = no.asked
    assert any(line.startswith("This was approved, but not with what is in the script now: ") for line in asked.lines)
