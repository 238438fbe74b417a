"""Several calls of one reply are counted, asked about one at a time, or answered together."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ikigai.agent.jobs import SettingsInForce
from ikigai.app.tools.tool_runtime import StandingApprovals
from ikigai.core.events.messages import ToolCall
from ikigai.core.ports import StartDecision
from ikigai.core.tools.tool_denial import DENIED_BY_USER, denial
from ikigai.core.views.questions import Question, QuestionAnswer
from ikigai.tools.approval import standing_approvals as standing
from ikigai.tools.approval.allowlist import Allowlist
from ikigai.tools.approval.gate import ApprovalGate
from ikigai.tools.approval.path_policy import PathScope
from ikigai.tools.files.factory import file_tools
from ikigai.tools.files.read_tracker import ReadTracker
from ikigai.tools.registry import ToolRegistry
from ikigai.tools.shell.background import BackgroundProcesses
from ikigai.tools.shell.environment import command_environment
from ikigai.tools.shell.shell import ShellTool


class User:
    """User who gives these answers in turn and records the questions; one question more fails the test."""

    def __init__(self, *keys: str) -> None:
        self.keys = list(keys)
        self.asked: list[Question] = []

    async def ask(self, question: Question) -> QuestionAnswer:
        self.asked.append(question)
        key = self.keys.pop(0)
        assert key in [choice.key for choice in question.choices], key
        return QuestionAnswer(key)

    @property
    def titles(self) -> list[str]:
        return [question.title for question in self.asked]


class Agent:
    """Agent that starts the calls of a turn at once, as the loop does, runs allowed ones, and records the events."""

    def __init__(self, work: Path) -> None:
        place = PathScope(str(work), (str(work.parent / "data"),), "/usr/bin:/bin")
        gate = ApprovalGate(place, Allowlist(), StandingApprovals(work.parent / "data" / standing.APPROVED_FILE))
        environment = command_environment(os.environ, secret=())
        self.processes = BackgroundProcesses(environment)
        tools = (*file_tools(work, ReadTracker()), ShellTool(work, environment, self.processes))
        self.registry = ToolRegistry(tools, lambda: gate)
        self.turn = 0
        self.events: list[tuple[str, str]] = []

    async def does(self, user: User, *calls: ToolCall, mode: str = "ask") -> list[StartDecision]:
        self.turn += 1

        async def one(call: ToolCall) -> StartDecision:
            started = await self.registry.start(call, self.turn, SettingsInForce({"approval": mode}), user.ask)
            self.events.append((call.id, started.decision.by if started.decision else ""))
            if not started.refusal:
                self.events.append((call.id, "ran"))
                await self.registry.run(call, lambda text: None)
            return started

        return await asyncio.gather(*map(one, calls))


@pytest.fixture
async def agent(work: Path) -> AsyncIterator[Agent]:
    made = Agent(work)
    yield made
    await made.processes.close()


def shell(id: str, command: str) -> ToolCall:
    return ToolCall(id, "shell", json.dumps({"command": command}))


def write(id: str, path: str, content: str = "x\n") -> ToolCall:
    return ToolCall(id, "write_file", json.dumps({"path": path, "content": content}))


def edit(id: str, old: str, new: str) -> ToolCall:
    return ToolCall(id, "edit_file", json.dumps({"path": "a.txt", "old": old, "new": new}))


READ = ToolCall("0", "read_file", '{"path": "a.txt"}')


async def test_one_answer_for_all_that_wait_each_shown_whole_before(agent: Agent, work: Path):
    user = User("t", "y")
    calls = [shell("1", "echo one >> log"), shell("2", "echo 'two\u202e' >> log"), write("3", "new.txt", "a\nb\n")]
    started = await agent.does(user, *calls)
    assert user.titles == ["1 of 3 · Run it?", "Allow all 3?"]
    assert user.asked[0].lines == (f"shell in {work}", "echo one >> log")
    shown = user.asked[1].lines
    assert shown[:3] == ("2 of 3", f"shell in {work}", "echo 'two<U+202E>' >> log")
    assert shown[3].startswith("Hidden characters: ") and shown[4:7] == ("", "3 of 3", "write new.txt (a new file)")
    assert shown[-2:] == ("+a", "+b") and user.asked[1].default == "o"
    assert [each.decision and (each.decision.call_id, each.decision.allowed, each.decision.by) for each in started] == [
        (number, True, "user, with 2 others") for number in "123"
    ]
    assert (work / "log").read_text() == "one\ntwo\u202e\n" and (work / "new.txt").read_text() == "a\nb\n"
    for number in "123":  # nothing runs before its own approval
        assert agent.events.index((number, "user, with 2 others")) < agent.events.index((number, "ran"))


async def test_no_to_all_runs_nothing_and_asks_once(agent: Agent, work: Path):
    for keys in (("x",), ("t", "n")):
        user = User(*keys)
        started = await agent.does(user, *(shell(number, f"touch {number}") for number in "1234"))
        assert len(user.asked) == len(keys) and all(each.refusal == denial(others=3) for each in started)
        assert {each.decision.by for each in started if each.decision} == {"user, with 3 others"}
    assert not list(work.iterdir())


async def test_one_by_one_after_all_and_the_rest_together(agent: Agent, work: Path):
    user = User("t", "o", "y", "n", "t", "y")
    started = await agent.does(user, *(shell(number, f"touch {number}") for number in "1234"))
    assert user.titles == [
        *("1 of 4 · Run it?", "Run all 4?", "1 of 4 · Run it?", "2 of 4 · Run it?"),
        *("3 of 4 · Run it?", "Run all 2?"),
    ]
    assert [each.decision.by for each in started if each.decision] == [
        *("user, once", "user", "user, with 1 other", "user, with 1 other")
    ]
    assert sorted(file.name for file in work.iterdir()) == ["1", "3", "4"]
    assert [choice.key for choice in user.asked[3].choices] == ["y", "s", "a", "n", "r", "t", "x"]


async def test_call_with_a_cut_diff_is_answered_by_itself(agent: Agent, work: Path):
    long, wide = "".join(f"{n}\n" for n in range(2_500)), f"x = 1 {' ' * 2_000}; touch pwned\n"
    for content in (long, wide):
        user = User("y", "n")
        await agent.does(user, shell("1", "true"), write("2", "new.txt", content))
        keys = [[choice.key for choice in question.choices] for question in user.asked]
        assert keys == [["y", "s", "a", "n", "r", "x"], ["y", "s", "a", "n", "r"]]
        assert any("more" in line and line.endswith(("not shown]", "more]")) for line in user.asked[1].lines)
    user = User("t", "y")
    await agent.does(user, shell("1", "true"), write("2", "new.txt", long[:5_000]))
    assert (work / "new.txt").read_text() == long[:5_000]


async def test_changed_call_is_asked_about_again(agent: Agent, work: Path):
    (work / "sub").mkdir()
    user = User("t", "y", "n")
    started = await agent.does(user, shell("1", "cd sub"), shell("2", "touch here"))
    assert user.titles == ["1 of 2 · Run it?", "Run all 2?", "2 of 2 · Run it?"]
    assert user.asked[1].lines[1] == f"shell in {work}" and user.asked[2].lines[0] == f"shell in {work / 'sub'}"
    assert user.asked[2].lines[-1].startswith("This call has changed since it was shown")
    assert [each.refusal for each in started] == ["", DENIED_BY_USER] and not (work / "sub" / "here").exists()


async def test_command_that_changes_the_file_takes_the_answer_for_its_edit_away(agent: Agent, work: Path):
    (work / "a.txt").write_text("one\ntwo\n")
    await agent.does(User(), READ)
    started = await agent.does(User("t", "y"), shell("1", "echo three >> a.txt"), edit("2", "two", "2"))
    assert "changed since it was read" in started[1].refusal and (work / "a.txt").read_text() == "one\ntwo\nthree\n"


async def test_edits_of_one_file_hold_together_though_they_move_one_another(agent: Agent, work: Path):
    (work / "a.txt").write_text("".join(f"line {number}\n" for number in range(60)))
    await agent.does(User(), READ)
    user = User("t", "y")
    calls = (edit("1", "line 3\n", "a\nb\nc\n"), edit("2", "line 30\n", ""), edit("3", "line 50\n", "end\n"))
    started = await agent.does(user, *calls)
    assert len(user.asked) == 2 and not any(each.refusal for each in started)
    text = (work / "a.txt").read_text()
    assert "line 2\na\nb\nc\nline 4\n" in text and "line 29\nline 31\n" in text and "line 49\nend\n" in text


async def test_calls_without_a_question_are_not_counted(agent: Agent, work: Path):
    (work / "a.txt").write_text("a\n")
    user = User("s", "n")
    calls = (READ, shell("1", "echo >> n"), shell("2", "echo >> n"), ToolCall("3", "no_such_tool"), shell("4", "rm n"))
    started = await agent.does(user, *calls)
    assert user.titles == ["1 of 3 · Run it?", "2 of 2 · Run it?"]
    assert [each.decision.by for each in started if each.decision] == [
        *("reads inside the working directory", "user, for this session", "approved for this session", "user")
    ]
    assert (work / "n").read_text() == "\n\n"
    again = await agent.does(user, shell("5", "echo >> n"))
    assert [each.decision.by for each in again if each.decision] == ["approved for this session"]


async def test_later_reply_of_the_turn_is_counted_by_itself(agent: Agent):
    user = User("y", "n", "n")
    await agent.does(user, shell("1", "true"))
    agent.turn -= 1
    await agent.does(user, shell("2", "false"), shell("3", "false"))
    assert user.titles == ["Run it?", "1 of 2 · Run it?", "2 of 2 · Run it?"]


async def test_question_that_is_taken_back_leaves_the_others_theirs(agent: Agent, work: Path):
    asked, never = asyncio.Event(), asyncio.Event()

    async def ask(question: Question) -> QuestionAnswer:
        asked.set()
        await never.wait()
        raise AssertionError

    starting = [
        asyncio.create_task(
            agent.registry.start(shell(number, "touch x"), 9, SettingsInForce({"approval": "ask"}), ask)
        )
        for number in "12"
    ]
    await asked.wait()
    for each in starting:
        each.cancel()
    await asyncio.gather(*starting, return_exceptions=True)
    user = User("n")
    await agent.does(user, shell("3", "touch x"))
    assert user.titles == ["Run it?"] and not (work / "x").exists()
