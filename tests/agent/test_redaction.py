"""Secrets are replaced before an event is made: in replies however split, drafts, calls, results and mail."""

import asyncio
import json
import random
from collections.abc import AsyncGenerator

import msgspec
import pytest

from ikigai.core.events import codec
from ikigai.core.events.events import AssistantMessage, CommandRan, MailSent, StoredEvent, TurnsRecalled, UserMessage
from ikigai.core.events.messages import StopReason, Text, Thinking, ToolCall, ToolResult, Usage
from ikigai.core.request.build import Request
from ikigai.core.request.reply import (
    Delta,
    ProviderEvent,
    StreamFinished,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from ikigai.core.request.reply_builder import ReplyBuilder
from ikigai.core.request.reply_draft import Draft
from ikigai.core.secrets.redaction import Redactor
from ikigai.core.state.inputs import CommandFinished, Interrupted, Quote, Submitted
from ikigai.core.state.memory import Memory
from ikigai.providers.scripted import ScriptedCall, ScriptedFailure, ScriptedHang
from ikigai.tools.base import Effect, EffectKind, OnOutput, ToolOutput
from ikigai.tools.registry import ToolRegistry
from tests.agent.test_loop import AGENT, Session
from tests.core.memory_log import LogOf, MemoryLog

KEY = 'sk-own-7Qz81xKp-öl-"q"-0123'
MARKER = "[redacted: OPENAI_API_KEY]"
GITHUB = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
OWN = Redactor({"OPENAI_API_KEY": KEY}, formats=True)


class DraftLog(LogOf):
    """A log that remembers every draft it was given."""

    drafts: list[Draft]

    def __init__(self, logs: MemoryLog) -> None:
        super().__init__(logs, AGENT)
        self.drafts = []

    async def save_draft(self, draft: Draft) -> None:
        self.drafts.append(draft)
        await super().save_draft(draft)


class Streamed:
    """A provider that streams these events, one after another."""

    def __init__(self, *events: ProviderEvent) -> None:
        self._events = events

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        for event in self._events:
            await asyncio.sleep(0)
            yield event
        yield StreamFinished(StopReason.END, Usage(1, 1))

    async def count(self, request: Request) -> int | None:
        return None

    async def close(self) -> None: ...


class Said(msgspec.Struct):
    text: str = ""


class Recorder:
    """A tool that keeps what it is told and answers with `answer`."""

    name, description, arguments, set = "record", "keeps a text", Said, "toys"

    def __init__(self, answer: str = "done", mail: str = "") -> None:
        self.answer, self.mail, self.heard = answer, mail, list[str]()

    async def preview(self, arguments: Said) -> Effect:
        return Effect(EffectKind.NOTHING, arguments.text)

    async def run(self, arguments: Said, progress: OnOutput) -> ToolOutput:
        self.heard.append(arguments.text)
        also = (MailSent("b", self.mail, "kid"),) if self.mail else ()
        return ToolOutput(self.answer, diff=f"+{self.answer}", extra_events=also)


def stored(session: Session) -> str:
    """All that is in the log, as its rows hold it."""
    return "\n".join(repr(codec.encode(row.event)) for row in session.logs.history(AGENT))


def pieces(text: str, seed: int) -> list[str]:
    """The text cut at random places."""
    chosen = random.Random(seed)
    cuts = sorted({0, len(text), *(chosen.randrange(len(text)) for _ in range(chosen.randrange(len(text))))})
    return [text[start:end] for start, end in zip(cuts, cuts[1:], strict=False)]


@pytest.mark.parametrize("seed", range(20))
async def test_reply_is_redacted_however_it_is_split(seed: int):
    logs: list[DraftLog] = []

    def log(of: MemoryLog) -> DraftLog:
        logs.append(DraftLog(of))
        return logs[0]

    said = f"{KEY} at the start, {KEY}{KEY} twice, sk-own-7 and no more, and at the end {KEY}"
    shown = said.replace(KEY, MARKER)
    async with Session([], log=log, redactor=OWN).running() as session:
        session.provider = Streamed(*map(TextDelta, pieces(said, seed)))
        session.tell(Submitted("say it"))
        await session.idle(1)
        assert [each.text for each in session.events(AssistantMessage)] == [shown]
        assert "".join(each.text for each in session.view.told("live")) == shown
        assert all(shown.startswith(draft.text) for draft in logs[0].drafts)
        assert KEY not in stored(session)


async def test_key_that_was_stored_before_it_was_known_is_not_recalled():
    async def recall(memory: Memory, text: str) -> TurnsRecalled:
        return TurnsRecalled(f"[said before: {text} {KEY}]", (1,))

    async with Session(["Noted.", "Noted."], redactor=OWN, recall=recall).running() as session:
        session.tell(Submitted("hi"))
        await session.idle(1)
        session.tell(Submitted("from an agent", sender="other"))
        await session.idle(2)
        (recalled,) = session.events(TurnsRecalled)
        assert recalled.text == f"[said before: hi {MARKER}]" and KEY not in stored(session)
        assert recalled.text in repr(session.provider.requests[0].messages)


async def test_stopped_reply_keeps_no_key():
    reply = (f"the key is {KEY}, and then sk-own", ScriptedHang())
    async with Session([reply], redactor=OWN).running() as session:
        session.tell(Submitted("say it"))
        await session.until(lambda: "and then " in "".join(each.text for each in session.view.told("live")))
        await asyncio.sleep(0.01)
        session.tell(Interrupted())
        await session.idle(1)
        assert [each.text for each in session.events(AssistantMessage)] == [f"the key is {MARKER}, and then sk-own"]


@pytest.mark.parametrize("most", range(12, len(KEY)))
async def test_stopped_in_the_middle_of_a_key(most: int):
    async with Session([(f"it is {KEY[:most]}", ScriptedHang())], redactor=OWN).running() as session:
        session.tell(Submitted("say it"))
        await session.until(lambda: "is " in "".join(each.text for each in session.view.told("live")))
        await asyncio.sleep(0.01)
        session.tell(Interrupted())
        await session.idle(1)
        assert [each.text for each in session.events(AssistantMessage)] == [f"it is {MARKER}"]


async def test_key_divided_between_two_texts():
    async with Session([], redactor=OWN).running() as session:
        session.provider = Streamed(TextDelta(f"a {KEY[:10]}"), ThinkingDelta("hm"), TextDelta(f"{KEY[10:]} b"))
        session.tell(Submitted("say it"))
        await session.idle(1)
        assert KEY not in stored(session)
        (said,) = session.events(AssistantMessage)
        assert said.text == f"a {MARKER} b"


async def test_call_that_goes_on_ends_no_text():
    tool = Recorder()
    async with Session([], ToolRegistry([tool]), redactor=OWN).running() as session:
        session.provider = Streamed(
            ToolCallDelta(0, "c1", "record", '{"text":'),
            TextDelta(KEY[:10]),
            ToolCallDelta(0, arguments='"hi"'),
            TextDelta(KEY[10:]),
            ToolCallDelta(0, arguments="}"),
        )
        session.tell(Submitted("say it"))
        await session.until(lambda: bool(tool.heard))
        session.tell(Interrupted())
        await session.idle(1)
        assert session.events(AssistantMessage)[1].text == MARKER and KEY not in stored(session)


async def test_signed_thinking_is_kept_whole_or_loses_its_signature():
    async with Session([], redactor=OWN).running() as session:
        session.provider = Streamed(
            ThinkingDelta(f"I know {KEY[:9]}", vendor="anthropic"),
            ThinkingDelta(f"{KEY[9:]}.", vendor="anthropic"),
            ThinkingDelta("", "signed-1", "anthropic"),
            ThinkingDelta("I say nothing, sk-own", vendor="anthropic"),
            ThinkingDelta("", "signed-2", "anthropic"),
            TextDelta("Nothing."),
        )
        session.tell(Submitted("think"))
        await session.idle(1)
        (reply,) = session.events(AssistantMessage)
        assert reply.blocks == (
            Thinking(f"I know {MARKER}.", "", "anthropic"),
            Thinking("I say nothing, sk-own", "signed-2", "anthropic"),
            Text("Nothing."),
        )


async def test_call_runs_as_written_and_is_stored_redacted():
    tool = Recorder()
    replies = [
        (ScriptedCall("record", {"text": f"use {KEY}"}),),
        "ok",
        (ScriptedCall("record", {"text": "again"}),),
        "ok",
    ]
    async with Session(replies, ToolRegistry([tool]), redactor=OWN).running() as session:
        for turn in (1, 2):
            session.tell(Submitted("do it"))
            await session.idle(turn)
        assert tool.heard == [f"use {KEY}", "again"]
        assert [json.loads(call.arguments)["text"] for call in session.events(ToolCall)] == [f"use {MARKER}", "again"]
        assert json.dumps(KEY)[1:-1] not in stored(session) and KEY not in stored(session)


async def test_split_call_is_stored_redacted():
    tool, text = Recorder(), json.dumps({"text": KEY})
    async with Session([], ToolRegistry([tool]), redactor=OWN).running() as session:
        called = [ToolCallDelta(0, "c1", "record"), *(ToolCallDelta(0, arguments=piece) for piece in text)]
        session.provider = Streamed(*called)
        session.tell(Submitted("do it"))
        await session.until(lambda: bool(tool.heard))
        session.tell(Interrupted())
        await session.idle(1)
        assert tool.heard[0] == KEY and KEY not in stored(session) and json.dumps(KEY)[1:-1] not in stored(session)


async def test_calls_that_share_an_id_run_as_each_was_written():
    first, second = Recorder(), Recorder()
    second.name = "other"
    async with Session([], ToolRegistry([first, second]), redactor=OWN).running() as session:
        session.provider = Streamed(
            ToolCallDelta(0, "c", "record", '{"text":"harmless"}'),
            ToolCallDelta(1, "c", "other", json.dumps({"text": KEY})),
            ToolCallDelta(2, "c_2", "record", '{"text":"last"}'),
        )
        session.tell(Submitted("do it"))
        await session.until(lambda: len(first.heard) >= 4 and len(second.heard) >= 2)  # it says the same again
        session.tell(Interrupted())
        await session.idle(1)
        assert sorted(set(first.heard)) == ["harmless", "last"] and set(second.heard) == {KEY}
        assert KEY not in stored(session)


@pytest.mark.parametrize(
    ("key", "written"),
    [
        (KEY, '{"text": "' + "".join(f"\\u{ord(each):04x}" for each in KEY) + '"}'),
        ("nvapi-0123456789abcdef", '{"text": "line\\nvapi-0123456789abcdef"}'),
        ("a/b+c/d=e/f&g<h>i", '{"text": "a\\/b\\u002bc\\/d=e\\/f\\u0026g<h>i"}'),
    ],
)
async def test_stored_arguments_are_json_however_they_are_escaped(key: str, written: str):
    tool, own = Recorder(), Redactor({"A_KEY": key}, formats=False)
    async with Session(
        [(ScriptedCall("record", written),), "ok"], ToolRegistry([tool]), redactor=own
    ).running() as session:
        session.tell(Submitted("do it"))
        await session.idle(1)
        (call,) = session.events(ToolCall)
        assert key not in json.loads(call.arguments)["text"] and tool.heard == [json.loads(written)["text"]]


async def test_names_and_ids_of_calls_are_redacted():
    async with Session([(ScriptedCall(KEY, "{}", id=KEY),), "ok"], redactor=OWN).running() as session:
        session.tell(Submitted("do it"))
        await session.idle(1)
        assert KEY not in stored(session)


async def test_reason_of_a_failure_is_redacted():
    async with Session([(ScriptedFailure(text=f"bad key {KEY}"),)], redactor=OWN).running() as session:
        session.tell(Submitted("do it"))
        await session.idle(1)
        assert KEY not in stored(session)


async def test_random_deltas_lose_nothing_but_keys():
    """The deltas passed on add up to those received, key by key, and blocks stay separate."""
    chosen = random.Random(7)
    for _ in range(300):
        deltas = [_delta(chosen) for _ in range(chosen.randrange(1, 14))]
        plain, redacted, shown = ReplyBuilder(), ReplyBuilder(OWN), ReplyBuilder()
        for event in (*deltas, StreamFinished(StopReason.END)):
            plain.add(event)
            for each in redacted.add(event):
                shown.add(each)
        assert redacted.blocks() == shown.blocks()
        want, got = plain.blocks(), redacted.stored()
        assert [type(block) for block in want] == [type(block) for block in got], deltas
        for before, after in zip(want, got, strict=True):
            if isinstance(before, Thinking) and isinstance(after, Thinking):
                assert after.text == OWN.own(before.text) and after.vendor == before.vendor
                assert after.signature == (before.signature if after.text == before.text else "")
            elif isinstance(before, Text) and isinstance(after, Text):
                assert after.text == OWN.own(before.text)


def _delta(chosen: random.Random) -> Delta:
    text = chosen.choice(["sk-own-7", KEY, KEY[:5], "hello ", "s", f"{KEY[9:]} and {KEY[:9]}"])
    match chosen.randrange(4):
        case 0:
            return TextDelta(f"{text} ")
        case 1:
            return ThinkingDelta(f"{text} ", "", chosen.choice(["", "an"]))
        case 2:
            return ThinkingDelta(f"{text} ", chosen.choice(["", f"sig-{chosen.random()}"]), "an")
        case _:
            return ToolCallDelta(chosen.randrange(2), "c", "record", "")


async def test_result_and_mail_are_redacted():
    tool = Recorder(f"key={KEY} token={GITHUB}", mail=f"take {KEY}")
    async with Session([(ScriptedCall("record"),), "ok"], ToolRegistry([tool]), redactor=OWN).running() as session:
        session.tell(Submitted("do it"))
        await session.idle(1)
        (result,) = session.events(ToolResult)
        assert result.content == f"key={MARKER} token=[redacted: GitHub token]"
        assert result.diff == f"+key={MARKER} token=[redacted: GitHub token]"
        assert [mail.text for mail in session.events(MailSent)] == [f"take {MARKER}"]


async def test_own_alone_leaves_tokens_of_others():
    tool = Recorder(f"key={KEY} token={GITHUB}")
    own = Redactor({"OPENAI_API_KEY": KEY}, formats=False)
    async with Session([(ScriptedCall("record"),), "ok"], ToolRegistry([tool]), redactor=own).running() as session:
        session.tell(Submitted("do it"))
        await session.idle(1)
        assert session.events(ToolResult)[0].content == f"key={MARKER} token={GITHUB}"


async def test_typed_secrets_stay_and_are_notified():
    async with Session(["ok", "ok", "ok"], redactor=OWN).running() as session:
        for turn, text in enumerate((f"my key is {KEY}", f"and {GITHUB}", "no key, sk-own-7"), 1):
            session.tell(Submitted(text))
            await session.idle(turn)
        session.tell(Quote(f"!curl -H {GITHUB}\nok"))
        await session.idle(4)
        said = [row for row in session.logs.history(AGENT) if isinstance(row.event, UserMessage)]
        assert [row.event.text for row in said[:2]] == [f"my key is {KEY}", f"and {GITHUB}"]  # type: ignore[union-attr]
        assert session.view.told("notice") == [
            _notice(said[0], "OPENAI_API_KEY"),
            _notice(said[1], "GitHub token"),
            _notice(said[3], "GitHub token"),
        ]


def _notice(row: StoredEvent, name: str) -> str:
    told = f"Your message contains what looks like a key ({name}). It is stored as typed."
    return f"{told} To remove it: ikigai db purge --ids {row.id}"


async def test_words_of_another_agent_are_redacted_and_not_pointed_out():
    async with Session(["ok"], redactor=OWN).running() as session:
        session.tell(Submitted(f"use {KEY}", sender="boss"))
        await session.idle(1)
        assert [each.text for each in session.events(UserMessage)] == [f"use {MARKER}"]
        assert not session.view.told("notice")


async def test_why_a_call_did_not_run_is_redacted():
    tool = Recorder()

    async def fails(arguments: Said) -> Effect:
        raise OSError(f"no file {KEY} {GITHUB}")

    tool.preview = fails  # type: ignore[method-assign]
    async with Session([(ScriptedCall("record"),), "ok"], ToolRegistry([tool]), redactor=OWN).running() as session:
        session.tell(Submitted("do it"))
        await session.idle(1)
        (result,) = session.events(ToolResult)
        assert result.is_error and f"no file {MARKER} [redacted: GitHub token]" in result.content


async def test_long_result_is_redacted():
    """It is looked through beside the loop."""
    tool = Recorder(f"{KEY} {'word ' * 60_000}{GITHUB}")
    async with Session([(ScriptedCall("record"),), "ok"], ToolRegistry([tool]), redactor=OWN).running() as session:
        session.tell(Submitted("do it"))
        await session.idle(1)
        (result,) = session.events(ToolResult)
        assert KEY not in result.content and GITHUB not in result.content and result.content.startswith(MARKER)


@pytest.mark.parametrize("told", [CommandFinished("/recall it", f"It is {KEY}.")])
async def test_answer_to_a_command_is_redacted(told: CommandFinished):
    async with Session([], redactor=OWN).running() as session:
        session.tell(told)
        await session.until(lambda: bool(session.events(CommandRan)))
        assert KEY not in stored(session)
