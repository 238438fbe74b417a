"""Forgetting by criteria: the loop over the log in memory, a model behind real HTTP, and a user who is asked."""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import pytest

from ikigai.agent.context.forget import select_named
from ikigai.agent.loop import AgentLoop
from ikigai.agent.loop_options import LoopOptions
from ikigai.core.agents.mail import Mail
from ikigai.core.context.forget_matching import ANSWER_SCHEMA, FILTER_CONTEXT_SPEC, MAX_PREVIEWED
from ikigai.core.context.forget_selection import EventRange
from ikigai.core.errors import Rejected
from ikigai.core.events.events import AssistantMessage, Ending, Event, Filtered, TurnEnded, UsageReported, UserMessage
from ikigai.core.events.messages import Text, ToolCall, ToolResult
from ikigai.core.request.model import ModelLimits
from ikigai.core.state.effective_settings import RunConfig, WindowRules
from ikigai.core.state.inputs import Filter, Forget, Input, Interrupted, MailDelivered, Plan, Submitted
from ikigai.core.state.loading import load_memory
from ikigai.core.state.memory import AgentStatus, Memory, next_request, replace
from ikigai.core.text import tokens
from ikigai.core.views.questions import Question, QuestionAnswer
from ikigai.providers.models.models import ModelTraits
from ikigai.providers.openai.provider import OpenAIProvider
from ikigai.providers.retry import RetryingProvider
from ikigai.tools.registry import ToolRegistry
from tests.agent.test_loop import Priced, Watcher
from tests.core.agent import Agent
from tests.core.memory_log import LogOf
from tests.support.running import running
from tests.support.wire_server import Answer, Received, WireServer, completion, failure

MODEL = "wire/small"
LARGE = ModelLimits(1_000_000, 1_000)
LINE = re.compile(r"^\[(\d+) (user|assistant|tool_call|tool_result)\] (.*)$", re.MULTILINE)
FOXES = [("What do foxes eat?", "A fox eats mice."), ("Weather?", "Rain."), ("Where do foxes live?", "In a fox's den.")]


class User(Watcher):
    """A user who answers every question with the same key."""

    def __init__(self, key: str = "y") -> None:
        super().__init__()
        self.key = key
        self.asked: list[Question] = []

    async def ask(self, question: Question) -> QuestionAnswer:
        self.asked.append(question)
        return QuestionAnswer(self.key)


class Model:
    """The model at the server: it finds messages by a word, and plans as instructed.

    `plan` are the arguments of its calls, one a reply, made of the results so far; an error ends it. `match` is given
    the ids that match and what was asked.
    """

    def __init__(self, *plan: Callable[[list[str]], dict[str, Any]], word: str = "fox") -> None:
        self.plan = plan or (preview(), apply())
        self.word = word
        self.match: Callable[[list[int], str], Answer | str] = lambda ids, asked: json.dumps({"ids": ids})
        self.pause = 0.0

    def __call__(self, received: Received) -> Answer | str:
        body = received.json
        if "tools" in body:
            return self._planned(body)
        asked = body["messages"][-1]["content"]
        if not is_matching(received):
            return "Hello."
        answer = self.match([id for id, text in shown(asked) if self.word in text], asked)
        made = completion(answer, piece=50) if isinstance(answer, str) else answer
        made.pause = self.pause
        return made

    def _planned(self, body: dict[str, Any]) -> Answer:
        begun = max(n for n, message in enumerate(body["messages"]) if message["role"] == "user")
        results = [message["content"] for message in body["messages"][begun:] if message["role"] == "tool"]
        if len(results) == len(self.plan) or (results and results[-1].startswith("[error]")):
            return completion("That was it.")
        arguments = self.plan[len(results)](results)
        return completion(calls=[{"name": "filter_context", "arguments": arguments}], piece=1_000)


def preview(mode: str = "forget", **more: Any) -> Callable[[list[str]], dict[str, Any]]:
    return lambda _: {"action": "preview", "mode": mode, "criteria": "foxes", **more}


def apply(
    mode: str = "forget", ids: Callable[[list[int]], list[int]] = lambda ids: ids
) -> Callable[[list[str]], dict[str, Any]]:
    def step(results: list[str]) -> dict[str, Any]:
        found = json.loads(results[-1])["matching_messages"] if results else []
        return {"action": "apply", "mode": mode, "message_ids": ids([message["id"] for message in found])}

    return step


def is_matching(received: Received) -> bool:
    return received.json["messages"][-1]["content"].startswith("Criteria: ")


def shown(asked: str) -> list[tuple[int, str]]:
    """The messages in a question: id and first line."""
    return [(int(id), text) for id, _, text in LINE.findall(asked)]


class Talk:
    """A conversation that is in the log already, and the loop over it."""

    def __init__(
        self, server: WireServer, model: Model, user: User, limits: ModelLimits, rules: WindowRules, budget: int
    ) -> None:
        self.server, self.model, self.user = server, model, user
        server.answer = model
        provider = OpenAIProvider("wire", server.base_url, "key", traits=lambda _: ModelTraits())
        self.provider = RetryingProvider(provider, jitter=lambda: 0.0)
        settings = {"model": MODEL, "system": "Be brief.", "budget": budget}
        self.limits = limits
        self.run = RunConfig(
            settings, lambda _: self.limits, provider.encoder, planning=lambda: (FILTER_CONTEXT_SPEC,), rules=rules
        )
        self.agent = Agent(self.run)
        self.logs = self.agent.log

    def said(self, turns: Iterable[tuple[str, str]]) -> "Talk":
        for asked, answered in turns:
            self.agent.turn(asked, answered)
        return self

    def pressed(self, share: float) -> "Talk":
        """The model's context so large that the conversation takes this share of it."""
        idle = replace(self.agent.memory, open=None)
        self.limits = ModelLimits(int(idle.used / share), 10)
        return self

    def load(self) -> Memory:
        return self.logs.load(load_memory(self.run, "a"))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Talk"]:
        log = LogOf(self.logs, "a")
        options = LoopOptions(services=Priced())
        self.runtime = AgentLoop(self.load(), log, lambda _: self.provider, ToolRegistry(), self.user, options)
        try:
            async with running(self.runtime):
                yield self
        finally:
            await self.provider.close()
        assert self.load() == self.runtime.memory, "memory after live use is memory after a restart"

    async def tell(self, incoming: Input) -> None:
        """Send an input. The events that ids name are looked up here, as a front end does."""
        if not isinstance(incoming, Forget):
            self.runtime.inbox.put_nowait(incoming)
            return
        await self.runtime.idle.wait()
        try:
            chosen = await select_named(self.runtime.forget_context(), self.runtime.memory, incoming)
        except Rejected as refusal:
            self.user.notice(str(refusal))
            return
        if chosen:
            self.runtime.inbox.put_nowait(chosen)
        else:
            self.user.notice("Nothing was forgotten.")

    async def until(self, true: Callable[[], bool], seconds: float = 60) -> None:
        async with asyncio.timeout(seconds):
            while not true():
                await asyncio.sleep(0.002)

    async def done(self, incoming: Input, filters: int = 1) -> None:
        """The talk is over, and the filter behind it stored."""
        await self.tell(incoming)
        await self.until(
            lambda: len(self.events(Filtered)) >= filters and self.runtime.memory.status is AgentStatus.IDLE
        )

    async def planned(self, mode: str = "forget") -> Filtered:
        async with self.running():
            await self.done(Plan(mode, "foxes"))
        return self.events(Filtered)[-1]

    def events(self, *kinds: type) -> list[Any]:
        return [row.event for row in self.logs.history("a") if isinstance(row.event, kinds)]

    @property
    def results(self) -> list[ToolResult]:
        return self.events(ToolResult)

    @property
    def matching(self) -> list[Received]:
        """The requests that looked for messages."""
        return [received for received in self.server.requests if is_matching(received)]

    @property
    def rows(self) -> list[UsageReported]:
        """The rows of the ledger."""
        return [row for row in self.events(UsageReported) if row.purpose == "matching"]

    def ids(self, word: str) -> list[int]:
        """The messages that hold the word."""
        found = []
        for row in self.logs.history("a"):
            text = getattr(row.event, "text", "") or getattr(row.event, "content", "")
            planning = isinstance(row.event, UserMessage) and row.event.planning
            if word in text and not planning:
                found.append(row.id)
        return found

    def sent(self) -> str:
        """The messages of the next request, as text."""
        return "\n".join(message.text for message in next_request(self.load()).messages)


Talking = Callable[..., Talk]


@pytest.fixture
def talking(wire_model: WireServer) -> Talking:
    def made(
        model: Model | None = None,
        user: User | None = None,
        limits: ModelLimits = LARGE,
        rules: WindowRules = WindowRules(),  # noqa: B008  (frozen)
        budget: int = 500_000,
    ) -> Talk:
        return Talk(wire_model, model or Model(), user or User(), limits, rules, budget)

    return made


def nothing_happened(talk: Talk, filtered: Filtered, before: str) -> None:
    """Only the talk itself has left memory."""
    assert (filtered.ranges, filtered.ids, filtered.messages) == ((), (), 0)
    assert talk.sent() == before


# ── preview, confirm, apply ──


async def test_forget(talking: Talking):
    talk = talking().said(FOXES)
    ids = talk.ids("fox")
    filtered = await talk.planned()
    assert len(ids) == 4 and talk.sent() == "Weather?\nRain."
    assert (filtered.mode, filtered.criteria, filtered.messages, filtered.ids) == ("forget", "foxes", 4, ())
    assert filtered.after < filtered.before
    previewed, applied = (json.loads(result.content) for result in talk.results)
    assert previewed["matching_messages"] == [
        {"id": ids[0], "role": "user", "preview": "What do foxes eat?"},
        {"id": ids[1], "role": "assistant", "preview": "A fox eats mice."},
        {"id": ids[2], "role": "user", "preview": "Where do foxes live?"},
        {"id": ids[3], "role": "assistant", "preview": "In a fox's den."},
    ]
    assert previewed["message_count"] == 4 and previewed["token_estimate"] > 0
    assert applied == {"filter_event_id": None, "messages_filtered": 4, "context_before": 6, "context_after": 2}
    [question] = talk.user.asked
    assert question.title.startswith("Forget 4 messages (2 turns), ~") and question.default == "n"
    assert [line.partition("  ")[0] for line in question.lines] == [f"{ids[0]}-{ids[1]}", f"{ids[2]}-{ids[3]}"]
    [asked] = talk.matching
    assert asked.json["response_format"]["json_schema"]["schema"] == json.loads(ANSWER_SCHEMA)
    assert "tools" not in asked.json and "filter_context" not in asked.body.decode()
    said = {row.id for row in talk.logs.history("a") if isinstance(row.event, UserMessage | AssistantMessage)}
    assert [id for id, _ in shown(asked.json["messages"][-1]["content"])] == sorted(said)[:6]
    [row] = talk.rows
    assert (row.model, row.attempt, row.failure) == (MODEL, 1, "") and row.usage.input == 10 and row.cost == 15.0


async def test_pair_is_forgotten_together(talking: Talking):
    """Of a turn only the messages that match leave, but a call never without its result."""
    talk = talking()
    talk.agent.happen(Submitted("Look at it."))
    look = [Text("I look at the fox."), ToolCall("c1", "look", "{}"), ToolCall("c2", "look", "{}")]
    talk.agent.store((AssistantMessage((look[0],)), look[1], look[2], ToolResult("c1", "red"), ToolResult("c2", "hen")))  # type: ignore[arg-type]
    talk.agent.reply(Text("It is red."))
    talk.said(FOXES[1:2])
    filtered = await talk.planned()
    assert filtered.ranges == () and len(filtered.ids) == filtered.messages == 5
    assert talk.sent() == "Look at it.\nIt is red.\nWeather?\nRain."


async def test_user_declines(talking: Talking):
    talk = talking(user=User("n")).said(FOXES)
    before = talk.sent()
    filtered = await talk.planned()
    assert len(talk.user.asked) == 1
    assert [(result.is_error, result.content) for result in talk.results] == [
        (True, "The user declined. Nothing was changed.")
    ]
    nothing_happened(talk, filtered, before)


async def test_model_that_applies_although_the_user_declined(talking: Talking):
    talk = talking(user=User("n")).said(FOXES)
    before, ids = talk.sent(), talk.ids("fox")
    talk.model._planned = stubborn(preview()([]), {"action": "apply", "mode": "forget", "message_ids": ids})  # type: ignore[method-assign]
    filtered = await talk.planned()
    assert [result.is_error for result in talk.results] == [True, True]
    nothing_happened(talk, filtered, before)


def stubborn(*calls: dict[str, Any]) -> Callable[[dict[str, Any]], Answer]:
    """One call after another, whatever their results."""
    left = list(calls)

    def planned(body: dict[str, Any]) -> Answer:
        if not left:
            return completion("Done.")
        return completion(calls=[{"name": "filter_context", "arguments": left.pop(0)}])

    return planned


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        ([apply(ids=lambda _: [1, 2])], "has not confirmed a preview"),
        ([preview(), apply(ids=lambda ids: ids[:-1])], "not the list"),
        ([preview(), apply(ids=lambda ids: [*ids, 3])], "not the list"),
        ([preview(), apply(ids=lambda _: [])], "not the list"),
        ([preview(), apply("remember")], "not the list"),
        ([preview("remember")], "asked to forget, not to remember"),
        ([lambda _: {"action": "delete", "mode": "forget"}], "cannot take these arguments"),
        ([lambda _: {"action": "apply"}], "cannot take these arguments"),
    ],
)
async def test_unconfirmed_filter_is_not_applied(talking: Talking, plan: list[Any], why: str):
    talk = talking(Model(*plan)).said(FOXES)
    before = talk.sent()
    filtered = await talk.planned()
    assert talk.results[-1].is_error and why in talk.results[-1].content
    nothing_happened(talk, filtered, before)


async def test_second_preview_takes_the_first_one_back(talking: Talking):
    talk = talking(user=User()).said(FOXES)
    before, ids = talk.sent(), talk.ids("fox")
    answers = iter("yn")

    async def ask(question: Question) -> QuestionAnswer:
        return QuestionAnswer(next(answers))

    talk.user.ask = ask  # type: ignore[method-assign]
    call = {"action": "apply", "mode": "forget", "message_ids": ids}
    talk.model._planned = stubborn(preview()([]), preview()([]), call)  # type: ignore[method-assign]
    filtered = await talk.planned()
    assert [result.is_error for result in talk.results] == [False, True, True]
    nothing_happened(talk, filtered, before)


async def test_once_is_enough(talking: Talking):
    talk = talking().said(FOXES)
    call = {"action": "apply", "mode": "forget", "message_ids": talk.ids("fox")}
    talk.model._planned = stubborn(preview()([]), call, call, preview()([]))  # type: ignore[method-assign]
    filtered = await talk.planned()
    assert [result.is_error for result in talk.results] == [False, False, True, True]
    assert filtered.messages == 4 and talk.sent() == "Weather?\nRain."


async def test_nothing_matches(talking: Talking):
    talk = talking(Model(word="unicorn")).said(FOXES)
    before = talk.sent()
    filtered = await talk.planned()
    assert talk.results[0].content == "No message matches. Nothing was changed." and not talk.user.asked
    nothing_happened(talk, filtered, before)


async def test_empty_conversation(talking: Talking):
    talk = talking()
    filtered = await talk.planned()
    assert talk.results[0].is_error and not talk.matching
    nothing_happened(talk, filtered, "")


async def test_two_filters_compose(talking: Talking):
    talk = talking().said([*FOXES, ("A hare?", "No hare."), ("Stay.", "I stay.")])
    async with talk.running():
        await talk.done(Plan("forget", "foxes"))
        talk.model.word = "hare"
        await talk.done(Plan("forget", "hares"), filters=2)
    assert talk.sent() == "Weather?\nRain.\nStay.\nI stay."
    second = talk.matching[1].json["messages"][-1]["content"]
    assert len(shown(second)) == 6 and "fox eats" not in second, "what is forgotten is not looked through again"


async def test_more_matches_than_are_listed(talking: Talking):
    turns = [(f"fox {n}", f"a fox {n}") for n in range(60)]
    for ids in (lambda ids: [], lambda ids: ids, lambda ids: ids[:10]):
        talk = talking(Model(preview(), apply(ids=ids))).said([*turns, ("Stay.", "I stay.")])
        before = talk.sent()
        filtered = await talk.planned()
        found = json.loads(talk.results[0].content)
        assert (len(found["matching_messages"]), found["message_count"]) == (MAX_PREVIEWED, 120)
        if ids([1] * 50) == [1] * 10:
            nothing_happened(talk, filtered, before)
        else:
            assert filtered.messages == 120 and len(filtered.ranges) == 1 and talk.sent() == "Stay.\nI stay."


async def test_all_of_more_matches_than_are_listed_may_be_named(talking: Talking):
    talk = talking().said([(f"fox {n}", f"a fox {n}") for n in range(60)])
    call = {"action": "apply", "mode": "forget", "message_ids": talk.ids("fox")}
    talk.model._planned = stubborn(preview()([]), call)  # type: ignore[method-assign]
    assert (await talk.planned()).messages == 120


# ── remember ──


async def test_remember(talking: Talking):
    talk = talking(Model(preview("remember"), apply("remember"))).said([*FOXES, ("Stay?", "No.")])
    filtered = await talk.planned("remember")
    assert (filtered.mode, filtered.messages) == ("remember", 4)
    assert talk.sent() == "What do foxes eat?\nA fox eats mice.\nWhere do foxes live?\nIn a fox's den."
    [question] = talk.user.asked
    assert question.title.startswith("Keep only what matches, and forget 4 messages (2 turns), ~")
    assert len(question.lines) == 2 and "Weather?" in question.lines[0] and "Stay?" in question.lines[1]
    applied = json.loads(talk.results[1].content)
    assert (applied["messages_filtered"], applied["context_after"]) == (4, 4)


async def test_remember_keeps_single_messages_of_a_turn(talking: Talking):
    turns = [("What is red?", "The fox."), ("Weather?", "Rain.")]
    talk = talking(Model(preview("remember"), apply("remember"))).said(turns)
    filtered = await talk.planned("remember")
    assert len(filtered.ranges) == len(filtered.ids) == 1
    assert "The fox." in talk.sent() and "What is red?" not in talk.sent() and "Rain" not in talk.sent()


@pytest.mark.parametrize("keep_first", [False, True])
@pytest.mark.parametrize("first", ["The first fox", "The first turn"])
async def test_remember_forgets_what_is_before_the_window(talking: Talking, keep_first: bool, first: str):
    """Else it would come back into the room that was made."""
    turns = [(first, "one"), *((f"question {n} " + "x" * 400, f"answer {n}") for n in range(60)), ("a fox", "two")]
    model = Model(preview("remember"), apply("remember"))
    talk = talking(model, rules=WindowRules(keep_first_turn=keep_first), budget=2_000).said(turns)
    window = talk.load().window
    assert window.older.turns > 30 and bool(window.first) is keep_first
    await talk.planned("remember")
    assert "everything before the window" in talk.user.asked[0].lines
    kept = ["a fox"] if "fox" not in first or not keep_first else [first, "a fox"]
    for word in ("question", "answer"):
        assert word not in talk.sent()
    assert [line for line in talk.sent().splitlines() if "fox" in line] == kept
    assert talk.load().window.older.turns == 0


async def test_everything_matches_what_is_to_be_kept(talking: Talking):
    model = Model(preview("remember"), apply("remember"))
    talk = talking(model).said([FOXES[0], FOXES[2]])
    before = talk.sent()
    filtered = await talk.planned("remember")
    assert talk.results[0].content == "Every message matches: there is nothing to forget. Nothing was changed."
    nothing_happened(talk, filtered, before)


# ── answers that cannot be used ──


async def test_invented_ids_are_put_right_once(talking: Talking):
    talk = talking().said(FOXES)
    talk.model.match = lambda ids, asked: json.dumps({"ids": ids if "Your answer was:" in asked else [*ids, 999, 1000]})
    filtered = await talk.planned()
    assert filtered.messages == 4 and len(talk.matching) == len(talk.rows) == 2
    again = talk.matching[1].json["messages"][-1]["content"]
    assert "There are no messages 999, 1000" in again
    assert again.startswith(talk.matching[0].json["messages"][-1]["content"]), "asked all of it again"


@pytest.mark.parametrize(
    ("answer", "requests", "why"),
    [
        ('{"ids": [999]}', 2, "There are no messages 999"),
        ("They are the first and the last ones.", 2, "not a JSON object"),
        ("", 2, "not a JSON object"),
        (completion('{"ids": [1, 2, ', finish="length"), 1, "that is too long"),
        (completion("No.", finish="content_filter"), 1, "refused to answer"),
        (failure(401, "bad key"), 1, ""),
    ],
)
async def test_model_that_cannot_answer(talking: Talking, answer: Answer | str, requests: int, why: str):
    talk = talking().said(FOXES)
    before = talk.sent()
    talk.model.match = lambda ids, asked: answer
    filtered = await talk.planned()
    [result] = talk.results
    assert result.is_error and result.content.startswith("Searching the conversation failed: ")
    assert why in result.content and result.content.endswith("Nothing was changed.")
    assert not talk.user.asked and len(talk.matching) == len(talk.rows) == requests
    nothing_happened(talk, filtered, before)


async def test_server_that_refuses_the_form(talking: Talking):
    """Then the words alone must do, for this request and all that follow."""
    talk = talking().said(FOXES)
    good = talk.model.match

    def match(ids: list[int], asked: str) -> Answer | str:
        held = "response_format" in talk.server.requests[-1].json
        return failure(400, "This response_format type is unavailable now") if held else f"Sure:\n{good(ids, asked)}"

    talk.model.match = match
    async with talk.running():
        await talk.done(Plan("forget", "foxes"))
        talk.model.word = "Rain"
        await talk.done(Plan("forget", "rain"), filters=2)
    assert "Weather?" in talk.sent() and "Rain" not in talk.sent() and "fox" not in talk.sent()
    assert ["response_format" in received.json for received in talk.matching] == [True, False, False]


async def test_busy_server_is_asked_again_and_both_are_counted(talking: Talking):
    talk = talking().said(FOXES)
    good, busy = talk.model.match, [failure(503, "busy", retry_after="0")]
    talk.model.match = lambda ids, asked: busy.pop() if busy else good(ids, asked)
    filtered = await talk.planned()
    assert filtered.messages == 4
    assert [(row.attempt, row.failure, row.cost) for row in talk.rows] == [(1, "overloaded", 0.0), (2, "", 15.0)]


# ── in parts ──


def many(count: int) -> list[tuple[str, str]]:
    """Turns of equal size, every third about a fox."""
    return [(f"{n:05} {'fox' if n % 3 == 0 else 'hen'} " + "x" * 60, "y" * 100) for n in range(count)]


PRESSURE = [(0.3, 1, 1), (0.6, 2, 2), (0.83, 3, 4), (0.87, 3, 4)]
"""Shares of the context, and parts; a request has no more than 0.9 of it: more parts come of their size alone."""


@pytest.mark.ordinary("0.6-*", "0.87-*")
@pytest.mark.parametrize(("share", "least", "most"), PRESSURE)
async def test_more_parts_under_more_pressure(talking: Talking, share: float, least: int, most: int):
    talk = talking().said(many(400)).pressed(share)
    ids = talk.ids("fox")
    filtered = await talk.planned()
    assert least <= len(talk.matching) <= most and len(talk.rows) == len(talk.matching)
    assert filtered.messages == len(ids) == 134 and "fox" not in talk.sent()
    seen = [id for received in talk.matching for id, _ in shown(received.json["messages"][-1]["content"])]
    assert len(seen) == len(set(seen)) == 800, "every message is in one request"
    assert talk.server.busiest == min(4, len(talk.matching))


async def test_window_so_full_that_the_talk_has_no_room_beside_it(talking: Talking):
    """Turns that leave the window only for the planning turn are also searched: they return after it."""
    talk = talking().said(many(100))
    full = replace(talk.agent.memory, open=None).used
    talk.limits = ModelLimits(-(-(full + 20) * 10 // 9), 10)
    assert 0 < talk.load().room - full < 40
    filtered = await talk.planned()
    assert filtered.messages == 34 and "fox" not in talk.sent()
    assert talk.load().window.older.turns == 0


async def test_one_part_fails(talking: Talking):
    talk = talking().said(many(400)).pressed(0.87)
    before, good = talk.sent(), talk.model.match
    talk.model.match = lambda ids, asked: failure(400, "no such luck") if "00250 hen" in asked else good(ids, asked)
    filtered = await talk.planned()
    [result] = talk.results
    found = re.match(r"Searching part (\d) of (\d) failed: (.*) Nothing was changed\.", result.content)
    assert result.is_error and found and found[1] == "3" and int(found[2]) == len(talk.matching) == len(talk.rows)
    assert "no such luck" in found[3]
    known = {int(id) for id in result.content.rpartition("In the other parts matched: ")[2].rstrip(".").split(", ")}
    unseen = {
        id
        for received in talk.matching
        if "00250 hen" in received.body.decode()
        for id, _ in shown(received.json["messages"][-1]["content"])
    }
    assert known == set(talk.ids("fox")) - unseen and known
    assert not talk.user.asked
    nothing_happened(talk, filtered, before)


async def test_esc_ends_the_search(talking: Talking):
    talk = talking().said(many(100)).pressed(0.87)
    before = talk.sent()
    talk.model.match = lambda ids, asked: Answer(b"", end="hang")
    async with talk.running():
        await talk.tell(Plan("forget", "foxes"))
        await talk.until(lambda: talk.server.busy == 4)
        await talk.done(Interrupted())
        await talk.until(lambda: talk.server.busy == 0)
    assert talk.server.hung_up.is_set() and not talk.user.asked
    assert talk.events(TurnEnded)[-1].ending is Ending.INTERRUPTED
    nothing_happened(talk, talk.events(Filtered)[-1], before)


@pytest.mark.long
async def test_two_thousand_turns_under_pressure(talking: Talking):
    """No request of all those that a talk makes is larger than what the model takes, whatever it holds."""
    talk = talking(rules=WindowRules())
    for n, (asked, said) in enumerate(many(2_000)):
        if n % 100 == 0:  # text of which JSON makes more
            said = '\\"\n\t' * 500
        talk.agent.turn(asked, said)
    talk.pressed(0.85)
    memory = talk.load()
    assert len(memory.window.turns) == 2_000 and memory.used / talk.limits.context > 0.849
    talk.model.match = lambda ids, asked: (
        json.dumps({"ids": ids}) if "Your answer was:" in asked else '{"ids": [' + "\x01" * 3_000
    )
    filtered = await talk.planned()
    assert filtered.messages == 667 and "fox" not in talk.sent()
    assert len(talk.matching) == 8, "four parts, each asked twice"
    most = tokens.max_bytes("wire", "small", memory.room)
    assert max(len(received.body) for received in talk.server.requests) <= most < 4 * talk.limits.context


@pytest.mark.ordinary("2000-*")
@pytest.mark.parametrize(("context", "least"), [(2_000, 5), (8_000, 1)])
async def test_turn_larger_than_the_context(talking: Talking, context: int, least: int):
    """Messages that memory left out of a turn are in the log and may match; at most four requests run at once."""
    talk = talking(limits=ModelLimits(context, 100))
    talk.model.pause = 0.02
    talk.agent.happen(Submitted("Look at everything."))
    for n in range(300):
        call = ToolCall(f"c{n}", "look", '{"at":"\\n"}')
        events: tuple[Event, ...] = (AssistantMessage((Text(f"I look {n}."),)), call, ToolResult(call.id, '"\n' * 900))
        talk.agent.store(events)
    talk.agent.reply(Text("A fox."))
    filtered = await talk.planned()
    assert not talk.results[-1].is_error, talk.results[-1]
    assert len(filtered.ids) == 1 and len(talk.matching) >= least
    assert talk.server.busiest == min(4, len(talk.matching))
    seen = [id for received in talk.matching for id, _ in shown(received.json["messages"][-1]["content"])]
    assert len(set(seen)) == 902
    most = tokens.max_bytes("wire", "small", talk.load().room)
    assert max(len(received.body) for received in talk.matching) <= most


async def test_criteria_that_leave_no_room(talking: Talking):
    talk = talking(limits=ModelLimits(2_000, 100)).said(FOXES)
    talk.model.plan = (preview(criteria="x" * 4_000),)
    filtered = await talk.planned()
    assert talk.results[0].content == f"These criteria are too long for {MODEL}."
    assert filtered.messages == 0 and not talk.matching


# ── what is named by ids ──


@pytest.mark.parametrize("key", ["y", "n"])
async def test_named_by_ids(talking: Talking, key: str):
    talk = talking(user=User(key)).said(FOXES)
    before, ids = talk.sent(), talk.ids("fox")
    async with talk.running():
        await talk.tell(Forget((EventRange(ids[0], ids[1]), EventRange(newest_turns=1))))
        await talk.until(lambda: bool(talk.events(Filtered)) or bool(talk.user.told("notice")))
    assert talk.user.asked[0].title.startswith("Forget 4 messages (2 turns), ~") and not talk.server.requests
    assert talk.sent() == (before if key == "n" else "Weather?\nRain.")


@pytest.mark.parametrize(
    "asked", [Forget((EventRange(newest_turns=1),)), Plan("forget", "foxes")], ids=["ids", "criteria"]
)
async def test_sizes_of_a_filter_are_those_of_the_requests_around_it(talking: Talking, asked: Input):
    """Older turns come back into the room that it makes."""
    turns = [(f"question {n} " + "x" * 400, f"answer {n}") for n in range(30)]
    talk = talking(budget=2_000).said([*turns, ("A fox?", "A fox: " + "y" * 3_000)])
    before = talk.load()
    async with talk.running():
        await talk.done(asked)
    (filtered,), after = talk.events(Filtered), talk.load()
    assert len(after.window.turns) > len(before.window.turns)
    assert (filtered.before, filtered.after) == (before.used, after.used)


@pytest.mark.parametrize("is_named", [True, False], ids=["what is named leaves", "another turn leaves"])
async def test_filter_is_refused_when_what_it_names_has_changed(talking: Talking, is_named: bool):
    """Between the question and the answer another program, a rewind or a tool of the model may come."""
    talk = talking().said(FOXES)
    first, _, third = talk.load().window.turns
    async with talk.running():
        context, memory = talk.runtime.forget_context(), talk.runtime.memory
        chosen = await select_named(context, memory, Forget((EventRange(first.id, first.end),)))
        assert chosen
        gone = first if is_named else third
        await talk.tell(Filter(((gone.id, gone.end),), (), 2))
        await talk.until(lambda: len(talk.events(Filtered)) == 1)
        await talk.tell(chosen)
        await talk.until(lambda: bool(talk.user.told("notice")) or len(talk.events(Filtered)) == 2)
    told = talk.user.told("notice")
    assert len(talk.events(Filtered)) == 2 - is_named
    assert [text for text in told if "Nothing was forgotten, because the context has changed" in text] == told
    assert len(told) == is_named


async def test_mail_between_question_and_answer_leaves_the_selection_as_it_was(talking: Talking):
    talk = talking().said(FOXES)
    async with talk.running():
        memory = talk.runtime.memory
        chosen = await select_named(talk.runtime.forget_context(), memory, Forget((EventRange(newest_turns=1),)))
        await talk.tell(MailDelivered((Mail(1, "b", "heron", "And what do bears eat?"),)))
        await talk.until(lambda: len(talk.events(TurnEnded)) == len(FOXES) + 1 and not talk.runtime.busy)
        assert chosen
        await talk.tell(chosen)
        await talk.until(lambda: bool(talk.events(Filtered)))
    assert "Where do foxes live?" not in talk.sent() and "And what do bears eat?" in talk.sent()
