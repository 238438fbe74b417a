"""Condensing in the background: the loop over the log in memory, and a model that summarizes behind real HTTP."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from ikigai.agent.context import condenser as condensing
from ikigai.agent.loop import AgentLoop
from ikigai.agent.loop_options import LoopOptions
from ikigai.core.context.condense_prompt import CONDENSE_PROMPT
from ikigai.core.context.condense_threshold import CondenseOptions
from ikigai.core.events.events import AssistantMessage, StoredEvent, Summarized, TurnEnded, UsageReported, UserMessage
from ikigai.core.events.messages import Text
from ikigai.core.request.model import ModelLimits
from ikigai.core.state.effective_settings import RunConfig, WindowRules
from ikigai.core.state.inputs import (
    Change,
    Clear,
    Condense,
    Filter,
    Input,
    Interrupted,
    RewindAt,
    RewindTo,
    Submitted,
    Undo,
)
from ikigai.core.state.loading import load_memory
from ikigai.core.state.memory import AgentStatus, Memory, next_request
from ikigai.providers.models.models import ModelTraits
from ikigai.providers.openai.provider import OpenAIProvider
from ikigai.providers.retry import RetryingProvider
from ikigai.tools.registry import ToolRegistry
from tests.agent.test_loop import Priced, Watcher
from tests.core.agent import Agent
from tests.core.memory_log import LogOf
from tests.core.vectors import cases
from tests.support.running import running
from tests.support.wire_server import Answer, Received, WireServer, completion, failure

MODEL = "wire/small"
GOOD = "The user counts. Open: go on at 30."
HAND, AUTO = CondenseOptions("manual"), CondenseOptions("auto")


class Condensing(Priced):
    """Services that condense as the conversation says."""

    def __init__(self, talk: "Talk") -> None:
        super().__init__()
        self._talk = talk

    def condense_options(self, memory: Memory) -> CondenseOptions:
        return self._talk.options


class Talk:
    """A conversation of `turns` turns of about 110 tokens each that is in the log already, and the loop over it.

    `summary` is what the model answers when it is asked to summarize.
    """

    def __init__(self, server: WireServer, turns: int, options: CondenseOptions, context: int, budget: int) -> None:
        self.server, self.options = server, options
        self.summary: Answer | str | Callable[[str], Answer | str] = GOOD
        self.hangs = False  # where it is asked for anything else
        server.answer = self._answer
        provider = OpenAIProvider("wire", server.base_url, "key", traits=lambda _: ModelTraits())
        self.provider = RetryingProvider(provider, jitter=lambda: 0.0)
        self.limits = {MODEL: ModelLimits(context, 100)}
        settings = {"model": MODEL, "system": "Be brief.", "budget": budget}
        known = self.limits
        self.run = RunConfig(
            settings,
            lambda model: known.get(model, ModelLimits(2_000, 100)),
            provider.encoder,
            rules=WindowRules(prune_fraction=0),
        )
        self.agent = Agent(self.run)
        for n in range(turns):
            self.agent.turn(f"{n}?", f"n{n} " + "x" * 400)
        self.view = Watcher()
        self.logs = self.agent.log

    def _answer(self, received: Received) -> Answer | str:
        if not summarises(received):
            return Answer(end="hang") if self.hangs else "Yes. " + "y" * 400
        return self.summary(received.body.decode()) if callable(self.summary) else self.summary

    def load(self) -> Memory:
        return self.logs.load(load_memory(self.run, "a"))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Talk"]:
        self.runtime = AgentLoop(
            self.load(),
            LogOf(self.logs, "a"),
            lambda _: self.provider,
            ToolRegistry(),
            self.view,
            LoopOptions(services=Condensing(self)),
        )
        try:
            async with running(self.runtime):
                yield self
        finally:
            await self.provider.close()
        assert self.load() == self.runtime.memory, "memory after live use is memory after a restart"

    def tell(self, incoming: Input) -> None:
        self.runtime.inbox.put_nowait(incoming)

    async def until(self, true: Callable[[], Any]) -> None:
        try:
            async with asyncio.timeout(60):
                while not true():
                    await asyncio.sleep(0.002)
        except TimeoutError:
            raise AssertionError(f"in vain; told: {self.notices}") from None

    async def condensed(self, focus: str = "", summaries: int = 1) -> Summarized:
        self.tell(Condense(focus))
        await self.until(lambda: len(self.summaries) == summaries)
        return self.summaries[-1]

    async def refused(self, *words: str) -> str:
        """Wait for the sentence that holds these words."""
        await self.until(lambda: any(all(word in notice for word in words) for notice in self.notices))
        return next(notice for notice in self.notices if all(word in notice for word in words))

    async def turn(self, text: str = "Go on.") -> None:
        before = self.runtime.memory.full_window.total.turns
        self.tell(Submitted(text))
        await self.until(
            lambda: (
                self.runtime.memory.full_window.total.turns > before and self.runtime.memory.status is AgentStatus.IDLE
            )
        )

    async def pressed(self) -> None:
        """Go on until a summary is being made."""
        before = len(self.asked)
        while self.runtime._condenser.idle and len(self.asked) == before:  # or over already
            await self.turn()
        used, threshold = self.runtime.memory.used, 0.75 * self.runtime.memory.budget
        assert threshold <= used < threshold + 130
        await self.until(lambda: self.asked)

    @property
    def rows(self) -> list[StoredEvent]:
        return self.logs.history("a")

    @property
    def summaries(self) -> list[Summarized]:
        return [row.event for row in self.rows if isinstance(row.event, Summarized)]

    @property
    def spent(self) -> list[UsageReported]:
        return [row.event for row in self.rows if isinstance(row.event, UsageReported) and row.event.purpose]

    @property
    def asked(self) -> list[Received]:
        """The requests for a summary."""
        return [received for received in self.server.requests if summarises(received)]

    @property
    def notices(self) -> list[str]:
        return self.view.told("notice")

    def sent(self) -> list[str]:
        """The messages of the next request."""
        return [message.text for message in next_request(self.load()).messages]


def summarises(received: Received) -> bool:
    return received.json["messages"][-1]["content"].endswith("words, and nothing else.")


def words(received: Received) -> str:
    return received.json["messages"][-1]["content"]


Talking = Callable[..., Talk]


@pytest.fixture
def talking(wire_model: WireServer) -> Talking:
    def made(turns: int = 30, options: CondenseOptions = HAND, context: int = 100_000, budget: int = 100_000) -> Talk:
        return Talk(wire_model, turns, options, context, budget)

    return made


# ── what works ──


async def test_by_hand(talking: Talking):
    talk = talking()
    before = talk.load()
    async with talk.running():
        made = await talk.condensed("the numbers")
        memory = talk.runtime.memory
        assert talk.sent()[0].split("\n\n")[1] == GOOD and memory.used < before.used / 2
        assert talk.sent()[-1].startswith("n29 ") and not memory.window.older.turns
    (asked,) = talk.asked
    told, said = words(asked), [message["content"] for message in asked.json["messages"]]
    assert said[:3] == ["Be brief.", "0?", before.full_window.turns[0].messages[1].text], (
        "as it was sent: a cache serves it"
    )
    assert said[-2] == before.full_window.turns[made.turns - 1].messages[-1].text and len(said) == 2 * made.turns + 2
    assert (
        told.startswith("[not from the user")
        and CONDENSE_PROMPT in told
        and "Keep in mind above all: the numbers" in told
    )
    ends = [turn.end for turn in before.full_window.turns]
    assert [end for _, end in made.covers] == ends[: made.turns] and made.upto == ends[made.turns - 1]
    assert (made.text, made.focus, made.automatic, made.model, made.cost) == (GOOD, "the numbers", False, MODEL, 15.0)
    assert (made.before, made.after) == (before.used, memory.used)
    (row,) = talk.spent
    assert (row.purpose, row.model, row.usage.input, row.cost) == ("summary", MODEL, 10, 15.0)
    (note,) = [text for who, text in talk.view.seen if who == "note" and text.startswith("Condensed")]
    assert note.startswith(f"Condensed: {made.turns} turns, 3") and note.endswith(
        "tokens, $15.00. /summary shows it, /undo undoes it."
    )
    assert f"Condensing {made.turns} turns in the background; /condense again stops it." in talk.notices
    rule = talk.view.told("rule")[-1]
    assert (rule.summarized, rule.turns, rule.before) == (made.turns, 0, memory.window.turns[0].id)


async def test_it_is_taken_back_and_done_again(talking: Talking):
    talk = talking()
    before = talk.sent()
    async with talk.running():
        await talk.condensed()
        after = talk.sent()
        talk.tell(Undo())
        await talk.until(lambda: not talk.runtime.memory.summaries)
        assert talk.sent() == before
        talk.tell(Undo(talk.runtime.memory.changes[-1].id))
        await talk.until(lambda: talk.runtime.memory.summaries)
        assert talk.sent() == after
    assert len(talk.asked) == 1, "replay needs no model"


async def test_going_back_into_what_is_condensed_brings_it_back(talking: Talking):
    talk = talking()
    turn = talk.load().full_window.turns[4]
    async with talk.running():
        await talk.condensed()
        talk.tell(RewindTo(str(turn.id)))
        await talk.until(lambda: not talk.runtime.memory.summaries)
        assert [turn.id for turn in talk.runtime.memory.full_window.turns][-1] == turn.id and talk.sent()[0] == "0?"


async def test_earlier_summary_is_input_to_the_next(talking: Talking):
    talk = talking()
    async with talk.running():
        first = await talk.condensed()
        for _ in range(6):
            await talk.turn()
        talk.summary = "The user counts, and goes on."
        again = await talk.condensed(summaries=2)
    first_said = talk.asked[1].json["messages"][1]["content"]
    assert first_said.startswith("[summary of the earlier conversation") and GOOD in first_said
    assert again.of == (next(row.id for row in talk.rows if row.event == first),)
    assert again.turns == first.turns + len(again.covers)
    assert [text for text in talk.sent() if text.startswith("[summary")] == talk.sent()[:1]


async def test_by_itself_when_it_is_time_and_no_request_waits_for_it(talking: Talking, wire_model: WireServer):
    talk = talking(turns=23, options=AUTO, budget=4_000)
    talk.summary = completion(GOOD, piece=20, pause=0.05)
    async with talk.running():
        await talk.pressed()
        begun = len(talk.rows)
        await talk.turn("While it is made.")
        assert not talk.summaries and wire_model.busiest == 2, "both were under way at once"
        await talk.until(lambda: talk.summaries)
        assert talk.sent()[-2:] == ["While it is made.", "Yes. " + "y" * 400] and talk.runtime.memory.used < 2_000
        await talk.turn()
    (made,) = talk.summaries
    assert made.automatic and len(talk.asked) == 1
    kinds = [type(row.event).__name__ for row in talk.rows[begun:]]
    assert kinds.index("Summarized") > kinds.index("TurnEnded"), "between turns"


@pytest.mark.parametrize("meanwhile", [False, True])
async def test_turn_that_another_program_stored_is_closed_without_a_request(talking: Talking, meanwhile: bool):
    talk = talking(turns=40, options=AUTO, budget=4_000)
    planted = (UserMessage("Go."), AssistantMessage((Text("Yes."),)))
    if not meanwhile:
        talk.logs.append("a", planted)
    async with talk.running():
        if meanwhile:
            await talk.until(lambda: not talk.runtime.busy)
            talk.logs.append("a", planted)
            talk.tell(Change({"level": "high"}))
        await talk.until(lambda: any(isinstance(row.event, TurnEnded) and row.event.reason for row in talk.rows))
        await asyncio.sleep(0.1)
        assert talk.runtime._condenser.idle and not talk.server.requests
        await talk.turn()
        await talk.until(lambda: talk.summaries)


async def test_it_is_stored_only_when_the_turn_has_ended_and_outlives_an_interrupt(talking: Talking):
    talk = talking()
    async with talk.running():
        talk.summary = completion(GOOD, piece=20, pause=0.02)
        talk.hangs = True
        talk.tell(Condense())
        await talk.until(lambda: talk.asked)
        talk.tell(Submitted("Hang."))
        await talk.until(lambda: talk.spent)
        await asyncio.sleep(0)
        assert talk.runtime.memory.open and not talk.summaries
        assert talk.view.told("queued")[-1] == (), "nobody typed it"
        talk.tell(Interrupted())
        await talk.until(lambda: talk.summaries)
        assert not any("Not run" in notice for notice in talk.notices)
    assert talk.load().summary


async def test_print_mode_waits_for_what_was_asked_for(talking: Talking):
    talk = talking()
    talk.summary = completion(GOOD, piece=20, pause=0.01)
    async with talk.running():
        talk.tell(Condense())  # and the loop is asked to end at once
    assert len(talk.summaries) == 1


async def test_summary_in_another_language_is_a_summary(talking: Talking):
    talk = talking()
    talk.summary = "Der Benutzer zählt. 未完：从三十继续。🦊"
    async with talk.running():
        assert (await talk.condensed()).text == talk.summary


# ── what cannot harm ──

LONG = "The user counts to thirty. " * 500
BAD: dict[str, tuple[Answer | str, str]] = {
    "nothing": ("", "returned no text"),
    "blanks": (" \n ", "returned no text"),
    "longer": (LONG, "not shorter by a quarter"),
    "tool calls": (completion("I look.", calls=[{"name": "look", "arguments": {}}]), "called tools"),
    "refusal": (completion("I cannot.", finish="content_filter"), "refused"),
    "cut off": (completion("The user", finish="length"), "that is too long"),
    "broken off": (failure(401, "Wrong key."), "There is no summary"),
    "too long for it": (failure(400, "too long", "context_length_exceeded"), "There is no summary"),
}


@pytest.mark.parametrize("bad", BAD)
async def test_unusable_summary_changes_nothing_and_is_not_retried_every_turn(talking: Talking, bad: str):
    """A tenth of the window has to be said first; then once more."""
    talk = talking(turns=23, options=AUTO, budget=4_000)
    talk.summary, why = BAD[bad]
    async with talk.running():
        await talk.pressed()
        said = await talk.refused(why)
        assert "The context has not changed." in said
        tries, window = len(talk.asked), talk.runtime.memory.used
        for _ in range(2):
            await talk.turn()
        assert len(talk.asked) == tries and not talk.summaries
        while talk.runtime.memory.used + talk.runtime.memory.window.older.bytes // 4 < 1.15 * window:
            await talk.turn()
        await talk.until(lambda: len(talk.asked) == tries + 1)
        talk.summary = GOOD
        assert (await talk.refused(why)) and talk.sent()[-1] == "Yes. " + "y" * 400
    assert not talk.summaries and talk.spent and all(row.purpose == "summary" for row in talk.spent)


async def test_endless_answer_is_given_up_and_its_cost_is_told(talking: Talking, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(condensing, "SUMMARY_TIMEOUT", 0.5)
    talk = talking()
    endless = completion("and so on, " * 50)
    talk.summary = Answer(endless.body, cut=len(endless.body) // 2, end="hang")
    async with talk.running():
        talk.tell(Condense())
        await talk.refused("took longer than 0.5 s")
        await talk.until(lambda: talk.spent)
        await talk.turn()
    (row,) = talk.spent
    assert (row.purpose, row.failure) == ("summary", "interrupted") and not talk.summaries


@pytest.mark.parametrize("stop", [Condense(), Interrupted()], ids=["again", "Esc"])
async def test_it_can_be_stopped(talking: Talking, stop: Input):
    talk = talking()
    before = talk.sent()
    talk.summary = Answer(end="hang")
    async with talk.running():
        talk.tell(Condense())
        await talk.until(lambda: talk.asked)
        talk.tell(stop)
        await talk.refused("Condensing was stopped; nothing was changed.")
        await talk.until(lambda: talk.spent)
        assert talk.sent() == before
        talk.summary = GOOD
        await talk.condensed()


async def test_esc_stops_the_turn_before_it_stops_the_summary(talking: Talking):
    talk = talking()
    talk.summary = completion(GOOD, piece=20, pause=0.03)
    talk.hangs = True
    async with talk.running():
        talk.tell(Condense())
        await talk.until(lambda: talk.asked)
        talk.tell(Submitted("?"))
        await talk.until(lambda: len(talk.server.requests) == 2)
        talk.tell(Interrupted())
        await talk.until(lambda: talk.summaries)


def forgets(talk: Talk) -> Input:
    first = talk.load().full_window.turns[0]
    return Filter(((first.id, first.end),), (), 2, "the first")


@pytest.mark.parametrize(
    ("meanwhile", "why"),
    [
        (forgets, "because the context has changed since"),
        (lambda talk: RewindAt(talk.load().full_window.turns[3].end), "because the context has changed since"),
        (lambda talk: Clear(), ""),
    ],
    ids=["forget", "rewind", "clear"],
)
async def test_summary_of_what_is_no_longer_there_is_discarded(
    talking: Talking, meanwhile: Callable[[Talk], Input], why: str
):
    talk = talking()
    talk.summary = completion(GOOD, piece=20, pause=0.05)
    async with talk.running():
        talk.tell(Condense())
        await talk.until(lambda: talk.asked)
        size = len(talk.runtime.memory.changes)
        talk.tell(meanwhile(talk))
        await talk.until(lambda: len(talk.runtime.memory.changes) > size)
        after = talk.sent()
        if why:
            await talk.refused(why)
        else:  # nobody needs it any more
            await talk.until(talk.server.hung_up.is_set)
        await talk.until(lambda: talk.spent)
        assert talk.sent() == after
    assert not talk.summaries


async def test_events_after_the_summarized_turns_do_not_matter(talking: Talking):
    talk = talking()
    talk.summary = completion(GOOD, piece=20, pause=0.05)
    async with talk.running():
        talk.tell(Condense())
        await talk.until(lambda: talk.asked)
        talk.tell(RewindAt(talk.load().full_window.turns[-2].end))
        await talk.until(lambda: talk.summaries)
        assert talk.sent()[0].split("\n\n")[1] == GOOD and talk.sent()[-1].startswith("n28 ")


async def test_it_does_not_come_again_when_the_user_has_taken_it_back(talking: Talking):
    talk = talking(turns=23, options=AUTO, budget=4_000)
    async with talk.running():
        await talk.pressed()
        await talk.until(lambda: talk.summaries)
        talk.tell(Undo())
        await talk.until(lambda: not talk.runtime.memory.summaries)
        await talk.turn()
        await talk.turn()
    assert len(talk.asked) == 1


async def test_program_that_ends_meanwhile_leaves_nothing(talking: Talking):
    talk = talking(turns=23, options=AUTO, budget=4_000)
    talk.summary = Answer(end="hang")
    async with talk.running():
        await talk.pressed()
    assert not talk.summaries and not talk.load().summaries
    async with talk.running():  # and the next one goes on
        await talk.turn()


async def test_with_manual_it_is_said_and_left_to_the_user(talking: Talking):
    talk = talking(turns=23, budget=4_000)
    async with talk.running():
        while not any("75 % full" in notice for notice in talk.notices):
            await talk.turn()
        await talk.turn()
        assert sum("/condense summarises its oldest turns" in notice for notice in talk.notices) == 1
    assert not talk.asked


async def test_off_means_that_nothing_is_said_and_by_hand_it_works(talking: Talking):
    talk = talking(turns=40, options=CondenseOptions(), budget=4_000)
    async with talk.running():
        await talk.turn()
        assert not talk.notices and talk.runtime.memory.window.older.turns
        made = await talk.condensed()
    assert made.turns > len(talk.load().window.turns) and "[user]\n0?" in words(talk.asked[0])


async def test_there_has_to_be_something_to_condense(talking: Talking):
    talk = talking(turns=2)
    async with talk.running():
        talk.tell(Condense())
        await talk.refused("Nothing to condense yet: the latest two turns are always kept.")
    assert not talk.asked


async def test_by_itself_it_says_nothing_of_having_nothing_to_do(talking: Talking):
    """In a budget that small it would say so with every turn."""
    talk = talking(turns=1, options=AUTO, budget=100)
    async with talk.running():
        await talk.turn()
        await talk.until(lambda: talk.runtime._condenser.idle)
    assert not talk.asked and not talk.notices


# ── own model, own prompt ──


async def test_model_and_a_prompt_of_its_own(talking: Talking, tmp_path: Path):
    (tmp_path / "prompt.txt").write_text("Say it in verse.")
    talk = talking(options=CondenseOptions("manual", model="wire/other:high", prompt_file=str(tmp_path / "prompt.txt")))
    talk.limits["wire/other"] = ModelLimits(50_000, 1_000)
    async with talk.running():
        assert (await talk.condensed()).model == "wire/other"
    (asked,) = talk.asked
    assert (
        words(asked).startswith("The conversation:\n\n[user]\n0?\n\n[assistant]\nn0 xxx") and "tools" not in asked.json
    )
    assert asked.json["model"] == "other" and asked.json["messages"][0]["content"] == "Say it in verse."
    assert talk.spent[0].model == "wire/other"


@pytest.mark.parametrize(
    ("content", "why"),
    [(None, "cannot be read: No such file"), (b"", "is empty"), (b"\xff\xfe", "not UTF-8"), (b"x" * 60_000, "longer"),
     (None, "not a regular file")],
)  # fmt: skip
async def test_prompt_file_that_is_no_use(talking: Talking, tmp_path: Path, content: bytes | None, why: str):
    file = tmp_path / "prompt.txt"
    if why == "not a regular file":
        os.mkfifo(file)
    elif content is not None:
        file.write_bytes(content)
    talk = talking(options=CondenseOptions("manual", prompt_file=str(file)))
    async with talk.running():
        talk.tell(Condense())
        assert str(file) in await talk.refused("condense_prompt_file", why)
    assert not talk.asked


async def test_small_model_is_shown_it_in_parts(talking: Talking):
    talk = talking(turns=60, options=CondenseOptions("manual", model="wire/tiny"))
    talk.limits["wire/tiny"] = ModelLimits(3_000, 300)
    talk.summary = lambda body: f"Up to {max(n for n in range(60) if f'{chr(92)}nn{n} ' in body)}."
    async with talk.running():
        made = await talk.condensed()
    assert len(talk.asked) > 2
    for before, asked in zip(talk.asked, talk.asked[1:], strict=False):
        last = talk.summary(before.body.decode())
        assert words(asked).startswith(f"The summary so far:\n\n{last}\n\n")
    assert all(len(asked.body) // 4 < 2_400 for asked in talk.asked), "context less the reply and a tenth"
    seen = "".join(map(words, talk.asked))
    assert all(f"[user]\n{n}?" in seen for n in range(made.turns)) and made.cost == 15.0 * len(talk.asked)
    assert made.text == talk.summary(talk.asked[-1].body.decode())


async def test_model_without_room_for_anything(talking: Talking):
    talk = talking(options=CondenseOptions("manual", model="wire/tiny"))
    talk.limits["wire/tiny"] = ModelLimits(900, 300)
    async with talk.running():
        talk.tell(Condense())
        await talk.refused("The context of wire/tiny is too small to summarise anything.")


# ── what is cleared ──


async def test_cleared_context_is_summarized_when_configured(talking: Talking):
    talk = talking(turns=5, options=CondenseOptions(on_clear=True))
    async with talk.running():
        talk.tell(Clear())
        await talk.until(lambda: talk.summaries)
        assert not talk.sent() and not talk.runtime.memory.summaries and len(talk.runtime.memory.changes) == 1
    (made,) = talk.summaries
    assert (
        made.closed == talk.load().cleared
        and made.turns == 5
        and not made.upto
        and "4?" in [message["content"] for message in talk.asked[0].json["messages"]]
    )
    assert any(
        text.startswith("What was cleared is summarised: 5 turns") for who, text in talk.view.seen if who == "note"
    )


async def test_clear_of_nothing_or_without_the_wish_asks_nobody(talking: Talking):
    for talk in (talking(turns=0, options=CondenseOptions(on_clear=True)), talking(turns=3)):
        async with talk.running():
            talk.tell(Clear())
            await talk.until(lambda talk=talk: talk.runtime.memory.cleared)
        assert not talk.asked and not talk.summaries


async def test_where_that_fails_it_is_said(talking: Talking):
    talk = talking(turns=5, options=CondenseOptions(on_clear=True))
    talk.summary = ""
    async with talk.running():
        talk.tell(Clear())
        await talk.refused("What was cleared was not summarised.", "returned no text")


# ── the outcomes of another program ──

OUTCOMES = {
    "roo-code/summarize_outcome/001": (1, GOOD, "Nothing to condense yet"),
    "roo-code/summarize_outcome/003": (5, GOOD, ""),
    "roo-code/summarize_outcome/005": (1, GOOD, "Nothing to condense yet"),
    "roo-code/summarize_outcome/007": (4, "  ", "returned no text"),
    "roo-code/summarize_outcome/008": (4, failure(404, "No such model."), "There is no summary"),
    "roo-code/summarize_outcome/012": (3, GOOD, ""),
    "roo-code/summarize_outcome/014": (3, GOOD, ""),
}


@pytest.mark.parametrize("case", cases("summarize_outcome", "peer_condensing.json"), ids=lambda case: case["id"])
async def test_outcomes(talking: Talking, case: dict[str, Any]):
    """Errors of the server leave failed requests paid for and reported.

    Where they leave the summary alone in the context, the newest two turns stay beside it. Where they refuse soon after
    a summary, two new turns have to come first. The new size is the size of the whole request.
    """
    turns, answer, why = OUTCOMES[case["id"]]
    theirs = case["expected"]
    assert bool(theirs["error"]) is bool(why)
    talk = talking(turns=turns)
    talk.summary = answer
    async with talk.running():
        talk.tell(Condense())
        await (talk.refused(why) if why else talk.until(lambda: talk.summaries))
        memory = talk.runtime.memory
        if theirs["cost"]:
            await talk.until(lambda: talk.spent)
        assert bool(sum(row.cost or 0 for row in talk.spent)) is bool(theirs["cost"])
        if why:
            assert len(memory.full_window.turns) == turns
        else:
            assert theirs["effective_messages"] == 1 < len(memory.full_window.turns) == 2
            assert talk.summaries[0].after == memory.used


async def test_local_model_answers_first(talking: Talking):
    """It does one thing at a time: a request would wait."""
    talk = talking(options=CondenseOptions("auto", model="local/x"))
    talk.agent.happen(Change({"model": "local/x"}))
    talk.limits["local/x"] = ModelLimits(50_000, 100)
    talk.summary = Answer(end="hang")
    async with talk.running():
        talk.tell(Condense())
        await talk.until(lambda: talk.asked)
        await talk.turn()
        await talk.refused("a local model does one thing at a time")
        assert talk.runtime._condenser.idle
