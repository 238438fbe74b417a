"""Forgetting: looking for what is meant, asking the user, and what the tool `filter_context` does with the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from ikigai.agent.one_shot import complete
from ikigai.agent.usage_meter import Price
from ikigai.core import tokens
from ikigai.core.errors import Refused
from ikigai.core.events import FilterPlanned, StoredEvent
from ikigai.core.forget import matching
from ikigai.core.forget.matching import Arguments, Part
from ikigai.core.forget.selection import Ended, Selection, before, in_window, selecting, selection
from ikigai.core.messages import StopReason, ToolCall, ToolResult
from ikigai.core.model import Provider
from ikigai.core.questions import Answered, Question, yes_or_no
from ikigai.core.state.inputs import Filter, Forget, Input, Used
from ikigai.core.state.loading import Reading
from ikigai.core.state.memory import Memory, output_reserve
from ikigai.core.state.window import Turn

AT_ONCE = 4
"""Parts that are looked through side by side."""
ANSWER_TOKENS = 8000
"""What an answer may take beside its ids: most models think first, asked or not."""
ID_TOKENS = 8
"""What an id may take: seven digits are three or four tokens, and there are spaces and a comma."""
LISTED = 12
"""Turns that a question names one by one."""
UNUSABLE = {StopReason.LENGTH: "gave an answer longer than it may be", StopReason.REFUSED: "refused to answer"}
WORDS = 44
"""Characters of the first words of each: a line of a terminal holds them with ids and sizes."""
_T = TypeVar("_T")


class Load(Protocol):
    """Reads the log."""

    def __call__(self, asking: Reading[_T], /) -> Awaitable[_T]: ...


class World:
    """What planning needs: to read the log, to ask a model, to ask the user, and to tell what it took."""

    def __init__(
        self,
        load: Load,
        provider: Callable[[str], Provider],
        price: Price,
        ask: Callable[[Question], Awaitable[Answered]],
        tell: Callable[[Input], None],
    ) -> None:
        self.load, self.provider, self.price, self.ask, self.tell = load, provider, price, ask, tell


async def named(world: World, memory: Memory, happened: Forget) -> Filter | None:
    """What is meant by ids, as the user has confirmed it; None when they have not. Raises Refused."""
    found: Selection = await world.load(selecting(memory.run, memory.agent, happened.wanted))
    if not await _agreed(world, "forget", found):
        return None
    return Filter(found.ranges, found.ids, found.messages, happened.criteria)


async def _agreed(world: World, mode: str, found: Selection) -> bool:
    title = f"Forget {_messages(found.messages)}, ~{tokens.short(found.tokens)} tokens?"
    if mode == "remember":
        title = f"Keep only what matches, and forget {_messages(found.messages)}, ~{tokens.short(found.tokens)} tokens?"
    answered = await world.ask(yes_or_no(title, listing(found)))
    return answered.key == "y"


def listing(found: Selection) -> tuple[str, ...]:
    """The turns of a selection, a line each; of many the first and the last."""
    lines = [
        f"{_span(each.ids or (each.turn.first, each.turn.said[-1].id))}  {_short(each.turn.words) or '[no words]'}"
        f"  ({_messages(each.messages)}, ~{tokens.short(each.tokens)})"
        for each in found.chosen
    ]
    if found.beyond:
        lines.insert(0, "everything before the window")
    if len(lines) > LISTED:
        left = len(lines) - LISTED
        lines = [*lines[: LISTED // 2], f"… {left} more …", *lines[-LISTED // 2 :]]
    return tuple(lines)


def _short(words: str) -> str:
    return words if len(words) <= WORDS else f"{words[: WORDS - 1].rstrip()}…"


def _span(ids: Sequence[int]) -> str:
    return f"{ids[0]}-{ids[-1]}" if ids[0] != ids[-1] else str(ids[0])


def _messages(count: int) -> str:
    return f"{count:,} message{'s' * (count != 1)}"


class Failed(Exception):
    """Nothing can be said of all messages; in words."""


class Planner:
    """Runs `filter_context` in one planning talk: what was previewed and confirmed is kept until it is applied."""

    def __init__(self, world: World, memory: Memory) -> None:
        self._world, self._memory = world, memory
        self._confirmed: tuple[str, Selection, frozenset[int], int] | None = None
        self._applied = False

    async def run(self, call: ToolCall) -> tuple[ToolResult, tuple[FilterPlanned, ...]]:
        """The result of the call, and what is to be filtered when it applies something."""
        try:
            if call.name != matching.FILTER_CONTEXT:
                raise Failed(f"There is no tool {call.name!r} here, only {matching.FILTER_CONTEXT}.")
            arguments = msgspec.json.decode(call.malformed or call.arguments or "{}", type=Arguments)
            if arguments.action == "preview":
                return ToolResult(call.id, await self._preview(arguments)), ()
            plan, text = self._apply(arguments)
            return ToolResult(call.id, text), (plan,)
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            why = f"{matching.FILTER_CONTEXT} cannot take these arguments: {error}."
        except (Failed, Refused) as failure:
            why = str(failure)
        return ToolResult(call.id, why, is_error=True), ()

    async def _preview(self, arguments: Arguments) -> str:
        memory, opened = self._memory, self._memory.open
        assert opened
        if self._applied:
            raise Failed("A filter was applied in this talk already.")
        self._confirmed = None
        if arguments.mode != opened.planning:
            raise Failed(f"The user asked to {opened.planning}, not to {arguments.mode}.")
        # Turns that only this talk has no room for are back behind it.
        window = memory.full
        apart = window.first
        since = window.turns[0].id if window.turns else opened.first
        settled, turns = await self._world.load(in_window(memory.run, memory.agent, since, apart.id if apart else 0))
        ids = await self._look(turns, arguments.criteria or opened.criteria)
        found = selection(settled, turns, ids)
        matches = _rows(found)
        if arguments.mode == "remember":
            kept = {row.id for row in matches}
            rest = (row.id for turn in turns for row in turn.said if row.id not in kept)
            beyond = await self._world.load(before(memory.run, memory.agent, since))
            found = Selection(selection(settled, turns, rest).chosen, _around(beyond, apart))
        if not matches or not (found.chosen or found.beyond):
            what = "No message matches." if not matches else "Every message matches: there is nothing to forget."
            raise Failed(f"{what} Nothing was changed.")
        if not await _agreed(self._world, arguments.mode, found):
            raise Failed("The user declined. Nothing was changed.")
        total = sum(len(turn.said) for turn in turns)
        self._confirmed = arguments.mode, found, frozenset(row.id for row in matches), total
        size = sum(each.tokens for each in selection(settled, turns, ids).chosen)
        return matching.preview(matches, size)

    def _apply(self, arguments: Arguments) -> tuple[FilterPlanned, str]:
        if self._confirmed is None:
            raise Failed("The user has not confirmed a preview in this talk: nothing can be applied.")
        mode, found, matches, total = self._confirmed
        wanted = frozenset(arguments.message_ids)
        # Of many matches the model was shown the first: these, or none, stand for all.
        many = len(matches) > matching.SHOWN
        shown = frozenset(sorted(matches)[: matching.SHOWN])
        if arguments.mode != mode or not (wanted == matches or (many and wanted in (shown, frozenset()))):
            raise Failed("This is not the list that the user has confirmed. Apply exactly the ids of the preview.")
        self._confirmed, self._applied = None, True
        plan = FilterPlanned(found.ranges, found.ids, found.messages, found.tokens)
        return plan, matching.applied(found.messages, total)

    async def _look(self, turns: Sequence[Ended], criteria: str) -> frozenset[int]:
        """The ids of the messages that match. Raises Failed when a part of them could not be looked through."""
        memory = self._memory
        most = self._room * 4 // 5 - len(matching.SYSTEM) - 2 * len(msgspec.json.encode(criteria))
        if most < 400:
            raise Failed(f"These criteria are too long for {memory.model}.")
        divided = matching.parts(turns, memory.used / max(1, memory.limits.context), most)
        at_once = asyncio.Semaphore(AT_ONCE)

        async def look(part: Part) -> frozenset[int] | str:
            async with at_once:
                return await self._ask(part, criteria)

        answers = await asyncio.gather(*map(look, divided))
        known = frozenset[int]().union(*(each for each in answers if not isinstance(each, str)))
        for number, answer in enumerate(answers, 1):
            if isinstance(answer, str):
                part = f"part {number} of {len(answers)}" if len(answers) > 1 else "the conversation"
                shown = f" In the other parts matched: {', '.join(map(str, sorted(known)))}." if known else ""
                raise Failed(f"Looking through {part} failed: {answer} Nothing was changed.{shown}")
        return known

    @property
    def _room(self) -> int:
        """Bytes that a request may have."""
        memory = self._memory
        return tokens.most_bytes(memory.provider, memory.model, memory.room)

    async def _ask(self, part: Part, criteria: str) -> frozenset[int] | str:
        """The matching ids of one part, or why nobody knows; an answer that cannot be used is asked for once more."""
        asked = question = matching.question(part, criteria)
        for last in (False, True):
            done = await complete(
                self._world.provider(self._memory.model),
                self._memory.model,
                matching.SYSTEM,
                asked,
                purpose="matching",
                max_output=min(output_reserve(self._memory.limits), ANSWER_TOKENS + ID_TOKENS * len(part.ids)),
                price=self._world.price,
                schema=matching.ANSWER,
            )
            for usage in done.usage:
                self._world.tell(Used(usage))
            if done.failure:
                return done.failure.text
            if done.stop in UNUSABLE:  # asked again it would come to the same
                return f"{self._memory.model} {UNUSABLE[done.stop]}."
            ids = matching.matched(done.text, part)
            if not isinstance(ids, str):
                return ids
            if last:
                return f"{self._memory.model} gave no answer that can be used. {ids}"
            # So short that it stays within what is left of the room, even where JSON writes six bytes for a character.
            asked = f"{question}\n\n{matching.repair(done.text[: min(2000, self._room // 40)], ids)}"
        raise AssertionError("unreachable")


def _around(ranges: tuple[tuple[int, int], ...], kept: Turn | None) -> tuple[tuple[int, int], ...]:
    """The same ranges without the turn that is sent although it stands before the window."""
    if kept is None:
        return ranges
    cut = [
        piece for first, last in ranges for piece in ((first, min(last, kept.id - 1)), (max(first, kept.end + 1), last))
    ]
    return tuple((first, last) for first, last in cut if first <= last)


def _rows(found: Selection) -> list[StoredEvent]:
    """The messages of a selection."""
    return [row for each in found.chosen for row in each.turn.said if not each.ids or row.id in each.ids]
