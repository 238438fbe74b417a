"""The gate applies each answer of the user, for its lifetime and its call."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ikigai.agent.jobs import SettingsInForce
from ikigai.app.tools.tool_runtime import StandingApprovals
from ikigai.core.errors import IkigaiError
from ikigai.core.events.events import Choices
from ikigai.core.events.messages import ToolCall
from ikigai.core.ports import Ask, StartDecision
from ikigai.core.tools.approval_mode import ApprovalMode
from ikigai.core.tools.tool_denial import DENIED_BY_USER
from ikigai.core.views.questions import Question, QuestionAnswer
from ikigai.headless import printer as headless
from ikigai.tools.approval import standing_approvals as standing
from ikigai.tools.approval.allowlist import Allowlist
from ikigai.tools.approval.approval_questions import build_batch_question, build_question
from ikigai.tools.approval.batch import PendingApproval
from ikigai.tools.approval.gate import ApprovalGate
from ikigai.tools.approval.path_policy import PathScope
from ikigai.tools.approval.policy import call_fingerprint
from ikigai.tools.base import Effect, EffectKind
from ikigai.tools.files.diffs import unified_diff
from ikigai.tools.shell.background import BackgroundProcesses
from ikigai.tools.shell.shell import ShellArguments, ShellTool

ASKS: Choices = {"approval": "ask"}


class User:
    """User who gives one answer and records the questions."""

    def __init__(self, key: str = "n", words: str = "") -> None:
        self.answer = QuestionAnswer(key, words)
        self.asked: list[Question] = []

    async def ask(self, question: Question) -> QuestionAnswer:
        self.asked.append(question)
        return self.answer


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / standing.APPROVED_FILE


@pytest.fixture
def gate(work: Path, file: Path) -> Callable[[], ApprovalGate]:
    """Return a function that makes the gate of another run of the program, over one file."""
    place = PathScope(str(work), (str(work.parent / "data"),), "/usr/bin:/bin")
    return lambda: ApprovalGate(place, Allowlist(), StandingApprovals(file))


def shell(work: Path, command: str = "rm x", directory: str = "") -> tuple[ToolCall, Effect]:
    call = ToolCall("1", "shell", f'{{"command": "{command}"}}')
    return call, Effect(EffectKind.RUN, command, directory or str(work))


async def decided(
    gate: ApprovalGate, ask: Ask, what: tuple[ToolCall, Effect], settings: Choices = ASKS
) -> StartDecision:
    return await gate.decide(*what, SettingsInForce(settings), ask)


@pytest.mark.parametrize(
    ("key", "words", "refused", "by"),
    [
        ("y", "", "", "user, once"),
        ("s", "", "", "user, for this session"),
        ("a", "", "", "user, for always"),
        ("n", "", DENIED_BY_USER, "user"),
        ("r", "use mv", f"{DENIED_BY_USER} The user's reason: use mv", "user"),
        ("r", "", DENIED_BY_USER, "user"),
        ("?", "", DENIED_BY_USER, "user"),
    ],
)
async def test_every_answer(gate: Callable[[], ApprovalGate], work: Path, key: str, words: str, refused: str, by: str):
    started = await decided(gate(), User(key, words).ask, shell(work))
    assert started.refusal == refused and started.decision
    assert (started.decision.call_id, started.decision.allowed, started.decision.by) == ("1", not refused, by)
    assert started.decision.reason == words


@pytest.mark.parametrize(("key", "here", "later"), [("y", False, False), ("s", True, False), ("a", True, True)])
async def test_how_long_a_yes_holds(gate: Callable[[], ApprovalGate], work: Path, key: str, here: bool, later: bool):
    first, what, no = gate(), shell(work), User()
    await decided(first, User(key).ask, what)
    assert bool((await decided(first, no.ask, what)).refusal) is not here
    assert bool((await decided(gate(), no.ask, what)).refusal) is not later
    assert len(no.asked) == 2 - here - later


@pytest.mark.parametrize("key", ["s", "a"])
async def test_lasting_yes_holds_for_exactly_this_call(gate: Callable[[], ApprovalGate], work: Path, key: str):
    made, no, (call, effect) = gate(), User(), shell(work)
    await decided(made, User(key).ask, (call, effect))
    others = [
        shell(work, "rm y"),
        shell(work, "rm x "),
        shell(work, directory="/elsewhere"),
        (ToolCall("1", "shell", '{"command": "rm x", "background": true}'), effect),
        (ToolCall("1", "shell2", call.arguments), effect),
        (call, Effect(EffectKind.RUN, "rm x", str(work), (str(work / "link"),))),
    ]
    for other in others:
        assert (await decided(made, no.ask, other)).refusal == DENIED_BY_USER, other
    assert len(no.asked) == len(others)
    again = ToolCall("2", "shell", '{ "command":"rm x" }')
    assert not (await decided(made, no.ask, (again, effect))).refusal
    assert (await decided(made, no.ask, (again, effect), {"approval": "read-only"})).refusal
    assert len(no.asked) == len(others)


async def test_revoked_call_is_asked_about_again(gate: Callable[[], ApprovalGate], work: Path, file: Path):
    made, no, what = gate(), User(), shell(work)
    await decided(made, User("a").ask, what)
    (fingerprint,) = standing.list_approvals(file)
    assert standing.list_approvals(file)[fingerprint].shown == "rm x"
    assert standing.revoke(file, fingerprint)
    assert (await decided(made, no.ask, what)).refusal == DENIED_BY_USER and len(no.asked) == 1


async def test_approval_that_cannot_be_kept_runs_nothing(gate: Callable[[], ApprovalGate], work: Path, file: Path):
    file.parent.mkdir()
    file.write_text("{")
    started = await decided(gate(), User("a").ask, shell(work))
    assert started.refusal.startswith("Not run: the approval could not be stored.") and "damaged" in started.refusal
    assert started.decision and not started.decision.allowed
    with pytest.raises(IkigaiError):
        standing.list_approvals(file)


def edit(path: Path, work: Path, text: str = "x") -> tuple[ToolCall, Effect]:
    diff = unified_diff("", f"{text}\n", path.name, new=True)
    inside = path.is_relative_to(work)
    return (
        ToolCall("1", "edit_file", f'{{"path": "{path}", "new": "{text}"}}'),
        Effect(EffectKind.EDIT, path.name, str(work), (str(path),), inside=inside, diff=diff),
    )


ASKING_EACH_TIME = ["AGENTS.md", ".git/config", ".env", "id_rsa", "../other.txt", "../data/config.toml"]


async def test_yes_for_the_session_to_an_edit_holds_for_ordinary_files_of_the_folder(
    gate: Callable[[], ApprovalGate], work: Path
):
    made, no, user = gate(), User(), User("s")
    await decided(made, user.ask, edit(work / "a.py", work))
    assert ("s", "edits in this folder, this session") in [(c.key, c.label) for c in user.asked[0].choices]
    for path, text in (("a.py", "y"), ("b.py", "x"), ("deep/down/c.txt", "z")):
        started = await decided(made, no.ask, edit(work / path, work, text))
        assert started.decision and started.decision.by == "approved for this session", path
    assert not no.asked
    others = [edit((work / path).resolve(), work) for path in ASKING_EACH_TIME]
    for what in (*others, edit(work / "a.py", work, "a\u202eb"), shell(work)):
        assert (await decided(made, no.ask, what)).refusal == DENIED_BY_USER, what
    assert len(no.asked) == len(others) + 2
    assert (await decided(made, no.ask, edit(work / "a.py", work), {"approval": "read-only"})).refusal
    assert (await decided(gate(), no.ask, edit(work / "a.py", work))).refusal  # in another run of the program


@pytest.mark.parametrize("path", ASKING_EACH_TIME)
async def test_yes_for_the_session_to_a_doubtful_edit_holds_for_its_file(
    gate: Callable[[], ApprovalGate], work: Path, path: str
):
    made, user, no, file = gate(), User("s"), User(), (work / path).resolve()
    await decided(made, user.ask, edit(file, work))
    assert [(c.key, c.label) for c in user.asked[0].choices if c.key in "sa"] == [("s", "this file, this session")]
    assert not (await decided(made, no.ask, edit(file, work, "more"))).refusal
    for what in (edit(work / "a.py", work), edit(file, work, "a\u202eb"), edit(file.with_name("id_dsa"), work)):
        assert (await decided(made, no.ask, what)).refusal == DENIED_BY_USER


async def test_always_at_an_edit_holds_for_its_file_until_revoked(
    gate: Callable[[], ApprovalGate], work: Path, file: Path
):
    no, user = User(), User("a")
    await decided(gate(), user.ask, edit(work / "a.py", work))
    assert ("a", "always this file") in [(c.key, c.label) for c in user.asked[0].choices]
    call, effect = edit(work / "a.py", work, "other")
    for what in ((call, effect), (msgspec.structs.replace(call, name="write_file"), effect)):
        started = await decided(gate(), no.ask, what)
        assert started.decision and started.decision.by == "approved for always"
    for what in (edit(work / "b.py", work), edit(work / "a.py", work, "a\u202eb")):
        assert (await decided(gate(), no.ask, what)).refusal == DENIED_BY_USER
    ((fingerprint, stored),) = standing.list_approvals(file).items()
    assert (stored.tool, stored.shown) == ("edits", "a.py") and standing.revoke(file, fingerprint)
    assert (await decided(gate(), no.ask, (call, effect))).refusal == DENIED_BY_USER


def page(url: str, origin: str) -> tuple[ToolCall, Effect]:
    return ToolCall("1", "web_fetch", f'{{"url": "{url}"}}'), Effect(EffectKind.NETWORK, url, "/w", origin=origin)


@pytest.mark.parametrize("mode", [each for each in ApprovalMode if each is not ApprovalMode.READ_ONLY])
@pytest.mark.parametrize(
    ("origin", "whose"),
    [
        ("http://127.0.0.1:3000", "your own machine"),
        ("https://app.localhost", "your own machine"),
        ("http://[::1]:8080", "your own machine"),
        ("http://192.168.1.5", "a private address"),
        ("http://169.254.169.254", "a link-local address, where clouds give out keys"),
    ],
)
async def test_page_of_the_own_network_asks_in_every_mode_and_a_lasting_yes_is_for_its_origin(
    gate: Callable[[], ApprovalGate], work: Path, mode: ApprovalMode, origin: str, whose: str
):
    settings: Choices = {"approval": mode.value}
    for key, later in (("y", False), ("s", False), ("a", True)):
        first, user, no = gate(), User(key), User()
        assert not (await decided(first, user.ask, page(f"{origin}/x", origin), settings)).refusal
        assert [each.title for each in user.asked] == [f"Fetch {origin} ({whose})?"]
        assert bool((await decided(first, no.ask, page(f"{origin}/y", origin), settings)).refusal) is (key == "y")
        assert bool((await decided(gate(), no.ask, page(f"{origin}/y", origin), settings)).refusal) is not later
        for other in (f"{origin}1", origin.replace("http", "ftp"), "http://10.0.0.1"):
            assert (await decided(first, no.ask, page(f"{other}/x", other), settings)).refusal == DENIED_BY_USER
    assert "read-only" in (await decided(gate(), no.ask, page(origin, origin), {"approval": "read-only"})).refusal


class Waiting(User):
    """User who is asked, and answers only when `key` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.key: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.left = False

    async def ask(self, question: Question) -> QuestionAnswer:
        self.asked.append(question)
        try:
            return QuestionAnswer(await self.key)
        finally:
            self.left = True

    async def was_asked(self) -> None:
        """Wait for the question."""
        async with asyncio.timeout(60):
            while not self.asked:
                await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    ("what", "modes", "by"),
    [
        ("edit", ["edits"], "approval mode edits"),
        ("edit", ["auto"], "approval mode auto"),
        ("edit", ["read-only", "ask", "yolo"], "approval mode yolo"),
        ("rm x", ["edits", "auto", "yolo"], "approval mode yolo"),
        ("ls", ["edits", "auto"], "it matches the allow-list"),
    ],
)
async def test_mode_that_allows_the_call_answers_its_open_question(
    gate: Callable[[], ApprovalGate], work: Path, what: str, modes: list[str], by: str
):
    settings, user = SettingsInForce(ASKS), Waiting()
    called = edit(work / "a.py", work) if what == "edit" else shell(work, what)
    asking = asyncio.create_task(gate().decide(*called, settings, user.ask))
    await user.was_asked()
    for mode in modes:
        await asyncio.sleep(0.01)
        assert not asking.done() and len(user.asked) == 1
        settings.update({"approval": mode})
    started = await asyncio.wait_for(asking, 60)
    assert not started.refusal and started.decision and started.decision.allowed and user.left
    assert started.decision.by == by or what == "ls"


async def test_question_stays_open_for_a_mode_that_asks_and_a_yes_in_read_only_runs_nothing(
    gate: Callable[[], ApprovalGate], work: Path
):
    settings, user = SettingsInForce({"approval": "edits"}), Waiting()
    asking = asyncio.create_task(gate().decide(*shell(work), settings, user.ask))
    await user.was_asked()
    for mode in ("ask", "edits", "auto", "read-only"):
        await asyncio.sleep(0.01)
        settings.update({"approval": mode})
    await asyncio.sleep(0.01)
    assert not asking.done() and len(user.asked) == 1
    user.key.set_result("y")
    started = await asking
    assert "read-only" in started.refusal and started.decision and not started.decision.allowed


class Keys(User):
    """User who gives these answers, one after the other."""

    def __init__(self, *keys: str) -> None:
        super().__init__()
        self._keys = iter(keys)

    async def ask(self, question: Question) -> QuestionAnswer:
        self.asked.append(question)
        return QuestionAnswer(next(self._keys))


async def test_rule_is_shown_in_full_then_holds_in_its_folder_until_revoked(
    gate: Callable[[], ApprovalGate], work: Path, file: Path
):
    (work / "sub").mkdir()
    back = Keys("p", "n", "n")
    started = await decided(gate(), back.ask, shell(work, "ls -l sub"))
    assert started.refusal == DENIED_BY_USER and not file.exists()
    assert [each.title for each in back.asked] == ["Run it?", "Always run commands of this form?", "Run it?"]
    assert back.asked[1].lines[-2:] == (f"in {work}", "ls -l *") and back.asked[1].subject == (3,)
    started = await decided(gate(), Keys("p", "y").ask, shell(work, "ls -l sub"))
    assert started.decision and started.decision.by == "user, for always: ls -l *" and not started.refusal
    nobody = User()
    for command in ("ls -l", "ls -l .", "ls -l sub sub"):  # in another run of the program
        started = await decided(gate(), nobody.ask, shell(work, command))
        assert not started.refusal and started.decision and started.decision.by == "approved for always: ls -l *"
    assert not nobody.asked
    call, effect = shell(work, "ls -l sub")
    background = msgspec.structs.replace(effect, background=True)
    elsewhere = msgspec.structs.replace(effect, directory=str(work / "sub"))
    others = [(call, background), (call, elsewhere), (msgspec.structs.replace(call, name="other"), effect)]
    for what in (shell(work, "ls -a"), shell(work, "ls -l | cat"), shell(work, "ls -l sub > x"), *others):
        no = User()
        assert (await decided(gate(), no.ask, what)).refusal == DENIED_BY_USER and no.asked, what
    assert "read-only" in (await decided(gate(), nobody.ask, (call, effect), {"approval": "read-only"})).refusal
    ((fingerprint, stored),) = standing.list_approvals(file).items()
    assert (stored.tool, stored.rule, stored.directory) == ("shell", "ls -l *", str(work))
    assert standing.revoke(file, fingerprint)
    assert (await decided(gate(), (no := User()).ask, shell(work, "ls -l sub"))).refusal and no.asked


async def test_rule_that_cannot_be_stored_runs_nothing(gate: Callable[[], ApprovalGate], work: Path, file: Path):
    file.parent.mkdir()
    file.write_text("{")
    started = await decided(gate(), Keys("p", "y").ask, shell(work, "ls"))
    assert started.refusal.startswith("Not run: the approval could not be stored.")


@pytest.mark.parametrize("command", ["rm x", "ls | cat", "git push", "ls '\u202e'", "cat .env"])
async def test_choice_of_a_rule_is_absent_where_none_is_safe(
    gate: Callable[[], ApprovalGate], work: Path, command: str
):
    user = User()
    await decided(gate(), user.ask, shell(work, command))
    assert "p" not in [choice.key for choice in user.asked[0].choices]


@pytest.mark.parametrize("yes", [False, True])
async def test_print_mode_denies_and_tells_the_model(
    gate: Callable[[], ApprovalGate], work: Path, yes: bool, capfd: pytest.CaptureFixture[str]
):
    printer = headless.PrintView("text", "a", "id", yes=yes)
    started = await decided(gate(), printer.ask, shell(work))
    assert started.refusal == "This needs the user's approval, and the user cannot be asked here."
    assert started.decision and (started.decision.allowed, started.decision.by) == (False, "policy")
    printer.streams.wait(60)
    setting = '[tools] approval = "auto", allow = ["rm x"]'
    told = f"ikigai: Refused in print mode: rm x. Allow it: {setting}; --yolo allows everything.\n"
    assert capfd.readouterr().err == told
    assert not (await decided(gate(), printer.ask, shell(work), {"approval": "yolo"})).refusal


async def test_read_only_asks_nobody(gate: Callable[[], ApprovalGate], work: Path):
    user = User("y")
    for kind in (EffectKind.EDIT, EffectKind.RUN, EffectKind.NETWORK):
        effect = Effect(kind, "x", str(work), (str(work / "x"),))
        started = await decided(gate(), user.ask, (ToolCall("1", "tool"), effect), {"approval": "read-only"})
        assert "read-only" in started.refusal and started.decision and started.decision.by == "policy"
    assert not user.asked


@pytest.mark.parametrize("mode", ["", "nonsense", None, 3])
async def test_unknown_mode_asks(gate: Callable[[], ApprovalGate], work: Path, mode: str | int | None):
    user = User()
    assert (await decided(gate(), user.ask, shell(work), {"approval": mode})).refusal == DENIED_BY_USER and user.asked


def test_name_cannot_add_lines_to_the_question():
    path = "/w/a\n  Run it? yes\u202e"
    diff = unified_diff("", "x\n", "a\n+++ b/c\n@@ -1 +1 @@", new=True)
    for effect in (
        Effect(EffectKind.EDIT, path, "/w\n/x", (path,), diff=diff),
        Effect(EffectKind.READ, path, "/w\n/x", (path,)),
        Effect(EffectKind.NETWORK, path, "/w\n/x"),
        Effect(EffectKind.RUN, "x", "/w\n/x", (path,)),
    ):
        asked = build_question(ToolCall("1", "tool"), effect, ())
        lines = asked.lines
        assert asked.headings == (0,) and not any(line.startswith("  Run") for line in lines)
        shown = "/w/a⏎  Run it? yes<U+202E>"
        is_edit, runs = effect.kind is EffectKind.EDIT, effect.kind is EffectKind.RUN
        assert lines[0] == ("tool in /w⏎/x" if runs else f"tool {shown}{' (a new file)' * is_edit}")
        assert not runs or lines[1:] == ("x", f"uses {shown}")
        assert not is_edit or (asked.diffs, lines[1:3]) == (((1, 5),), ("--- /dev/null", "+++ b/a⏎+++ b/c⏎@@ -1 +1 @@"))


def test_question_shows_everything_once():
    command = "echo one\necho 'two\u202e'\t\x1b[8mthree"
    asked = build_question(ToolCall("1", "shell"), Effect(EffectKind.RUN, command, "/w"), ("Look at this.",))
    assert asked.title == "Run it?" and asked.default == "n" and asked.yes == ""
    assert asked.lines[:2] == ("shell in /w", "echo one") and asked.lines[-1] == "Look at this."
    assert (asked.headings, asked.subject, asked.diffs, asked.calls) == ((0,), (1, 2), (), ("1",))
    assert "<U+202E>" in asked.lines[2] and "three" in asked.lines[2] and "\x1b" not in asked.lines[2]
    assert [choice.key for choice in asked.choices] == ["y", "s", "a", "n", "r"]
    diff = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a\n+b"
    for real in ("/w/a.py", "/real/a.py", "/w/other.py"):
        more = (f"changes {real}",) * (real != "/w/a.py")
        edit = Effect(EffectKind.EDIT, "a.py", "/w", (real,), diff=diff)
        asked = build_question(ToolCall("1", "edit_file"), edit, ("Why.",))
        assert asked.lines == ("edit a.py", *diff.split("\n"), *more, "Why.")
        assert (asked.diffs, asked.subject) == (((1, 6),), ())
    read = Effect(EffectKind.READ, "/etc/hosts", "/w", ("/etc/hosts",), inside=False)
    assert build_question(ToolCall("1", "read_file"), read, ()).lines == ("read /etc/hosts",)
    page = Effect(EffectKind.NETWORK, "https://x.test/", "/w", inside=False)
    assert build_question(ToolCall("1", "web_fetch"), page, ()).lines == ("fetch https://x.test/",)


def test_batch_marks_each_call_and_its_diff():
    diff = "--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+b"
    others = (
        PendingApproval(ToolCall("2", "write_file"), Effect(EffectKind.EDIT, "n", "/w", ("/w/n",), diff=diff), ()),
        PendingApproval(ToolCall("3", "shell"), Effect(EffectKind.RUN, "a\nb", "/w"), ("Why.",)),
    )
    asked = build_batch_question(others, EffectKind.RUN, 1, 3)
    assert asked.lines == (
        *("2 of 3", "write n (a new file)", *diff.split("\n"), "", "3 of 3", "shell in /w", "a", "b", "Why."),
    )
    assert (asked.headings, asked.subject, asked.diffs) == ((1, 8), (9, 10), ((2, 6),))
    assert asked.calls == ("2", "3") and asked.title == "Allow all 3?"


@pytest.mark.parametrize("directory", ["/w", ""])
async def test_question_says_that_a_long_command_goes_on_in_the_background(work: Path, directory: str):
    """The arguments are cut in the line of the call; the question says it beside the command."""
    processes = BackgroundProcesses({})
    tool = ShellTool(work, {}, processes)
    command = f"server {'x' * 150}"
    for background in (True, False):
        effect = await tool.preview(ShellArguments(command, background=background))
        effect = msgspec.structs.replace(effect, directory=directory)
        asked = build_question(ToolCall("1", "shell"), effect, ())
        assert asked.lines[0] == f"shell{' (in the background)' * background}{' in /w' * bool(directory)}"
        assert asked.lines[1] == command
        both = build_batch_question((PendingApproval(ToolCall("1", "shell"), effect, ()),), effect.kind, 1, 2)
        assert any("in the background" in line for line in both.lines) is background


@pytest.mark.parametrize("key", ["s", "a"])
@pytest.mark.parametrize("command", ["bash s.sh", "./s.sh", "python s.sh", "sh -x s.sh"])
async def test_lasting_yes_for_a_script_ends_when_the_script_changes(
    gate: Callable[[], ApprovalGate], work: Path, key: str, command: str
):
    made, no, script = gate(), User(), work / "s.sh"
    script.write_text("ls\n")
    tool, call = ShellTool(work, {}, BackgroundProcesses({})), ToolCall("1", "shell", f'{{"command": "{command}"}}')

    async def refused(user: User) -> bool:
        return bool((await decided(made, user.ask, (call, await tool.preview(ShellArguments(command))))).refusal)

    assert not await refused(User(key)) and not await refused(no) and not no.asked
    script.write_text("rm -rf .\n")
    assert await refused(no) and await refused(no)
    for asked in no.asked:
        assert f"The script has changed since this was approved: {script}." in asked.lines
    assert not await refused(User("a")) and not await refused(no)
    script.unlink()
    assert await refused(no)


async def test_always_without_the_content_of_the_script_asks_again(
    gate: Callable[[], ApprovalGate], work: Path, file: Path
):
    (work / "s.sh").write_text("ls\n")
    tool, no = ShellTool(work, {}, BackgroundProcesses({})), User()
    for command, holds in (("bash s.sh", False), ("npm test", True)):
        call, effect = shell(work, command)
        file.parent.mkdir(exist_ok=True)
        kept = {call_fingerprint(call, effect): {"tool": "shell", "shown": command, "directory": str(work), "at": 1.0}}
        file.write_bytes(msgspec.json.encode(kept))
        effect = await tool.preview(ShellArguments(command))
        assert bool((await decided(gate(), no.ask, (call, effect))).refusal) is not holds, command
    (asked,) = no.asked
    assert any(line.startswith("This was approved with another version of the script: ") for line in asked.lines)
