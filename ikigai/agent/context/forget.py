"""Forget messages: select them, ask the user to confirm, and run the tool `filter_context`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from ikigai.agent.request.one_shot import complete
from ikigai.agent.request.usage_meter import PriceOf
from ikigai.core.context import forget_matching
from ikigai.core.context.forget_matching import FilterArguments, MatchBatch
from ikigai.core.context.forget_selection import (
    EndedTurn,
    Selection,
    close_selection,
    load_ranges_before,
    load_window_turns,
    select_events,
)
from ikigai.core.errors import Rejected
from ikigai.core.events.events import FilterPlanned, StoredEvent
from ikigai.core.events.messages import StopReason, ToolCall, ToolResult
from ikigai.core.request.model import Provider
from ikigai.core.state.inputs import Filter, Forget, Input, UsageRecorded
from ikigai.core.state.loading import Reading
from ikigai.core.state.memory import Memory, output_reserve
from ikigai.core.state.window import Turn
from ikigai.core.text import tokens
from ikigai.core.views.questions import Question, QuestionAnswer, yes_or_no

MAX_PARALLEL_PARTS = 4
"""Parts that are searched in parallel."""
MATCH_ANSWER_TOKENS = 8000
"""Tokens that an answer may take beside its ids: most models think first, asked or not."""
ID_TOKENS = 8
"""Tokens that an id may take: seven digits are three or four tokens, and there are spaces and a comma."""
MAX_LISTED_TURNS = 12
"""Turns that a question lists one by one."""
UNUSABLE_STOPS = {StopReason.LENGTH: "gave an answer that is too long", StopReason.REFUSED: "refused to answer"}
PREVIEW_CHARACTERS = 44
"""Characters of the first words of each turn: a line of a terminal holds them with ids and sizes."""
_T = TypeVar("_T")


class LogLoader(Protocol):
    """A function that executes a reading of the log."""

    def __call__(self, reading: Reading[_T], /) -> Awaitable[_T]: ...


class ForgetContext:
    """The services that planning needs: the log, a model, a question to the user, and inputs for the loop."""

    def __init__(
        self,
        load: LogLoader,
        provider: Callable[[str], Provider],
        price: PriceOf,
        ask: Callable[[Question], Awaitable[QuestionAnswer]],
        put_input: Callable[[Input], None],
    ) -> None:
        self.load, self.provider, self.price, self.ask, self.put_input = load, provider, price, ask, put_input


async def select_named(context: ForgetContext, memory: Memory, incoming: Forget) -> Filter | None:
    """Return the filter for the ids that the user confirmed, for a front end; None if the user declined.

    Raise Rejected where an id names nothing in memory.
    """
    selection: Selection = await context.load(select_events(memory.run, memory.agent, incoming.selected))
    chosen = Filter(selection.ranges, selection.ids, selection.messages, incoming.criteria)
    start = memory.start_up_to(chosen.last)
    return msgspec.structs.replace(chosen, start=start) if await _confirm(context, "forget", selection) else None


async def _confirm(context: ForgetContext, mode: str, selection: Selection) -> bool:
    whole = not selection.unread_ranges and not any(each.ids for each in selection.turns)
    turns = f" ({_turns(len(selection.turns))})" * whole
    size = f"{_messages(selection.messages)}{turns}, ~{tokens.format_tokens(selection.tokens)} tokens"
    title = f"Keep only what matches, and forget {size}?" if mode == "remember" else f"Forget {size}?"
    return (await context.ask(yes_or_no(title, list_turns(selection)))).key == "y"


def list_turns(selection: Selection) -> tuple[str, ...]:
    """Return a line for each turn of the selection; of many turns the first and the last."""
    lines = [
        f"{_span(each.ids or (each.turn.first, each.turn.sent_rows[-1].id))}  {_short(each.turn.title) or '[no words]'}"
        f"  ({_messages(each.messages)}, ~{tokens.format_tokens(each.tokens)})"
        for each in selection.turns
    ]
    if selection.unread_ranges:
        lines.insert(0, "everything before the window")
    if len(lines) > MAX_LISTED_TURNS:
        left = len(lines) - MAX_LISTED_TURNS
        lines = [*lines[: MAX_LISTED_TURNS // 2], f"… {left} more …", *lines[-MAX_LISTED_TURNS // 2 :]]
    return tuple(lines)


def _short(words: str) -> str:
    return words if len(words) <= PREVIEW_CHARACTERS else f"{words[: PREVIEW_CHARACTERS - 1].rstrip()}…"


def _span(ids: Sequence[int]) -> str:
    return f"{ids[0]}-{ids[-1]}" if ids[0] != ids[-1] else str(ids[0])


def _messages(count: int) -> str:
    return f"{count:,} message{'s' * (count != 1)}"


def _turns(count: int) -> str:
    return f"{count:,} turn{'s' * (count != 1)}"


class MatchingFailed(Exception):
    """The reason why the messages could not be searched."""


class FilterPlanner:
    """Runs `filter_context` in one planning turn, and keeps the confirmed preview until it is applied."""

    def __init__(self, context: ForgetContext, memory: Memory) -> None:
        self._context, self._memory = context, memory
        self._confirmed: tuple[str, Selection, frozenset[int], int] | None = None
        self._applied = False

    async def run(self, call: ToolCall) -> tuple[ToolResult, tuple[FilterPlanned, ...]]:
        """Return the result of the call and, if it applies a filter, the event for it."""
        try:
            if call.name != forget_matching.FILTER_CONTEXT:
                raise MatchingFailed(
                    f"The tool {call.name!r} does not exist here, only {forget_matching.FILTER_CONTEXT}."
                )
            arguments = msgspec.json.decode(call.malformed or call.arguments or "{}", type=FilterArguments)
            if arguments.action == "preview":
                return ToolResult(call.id, await self._preview(arguments)), ()
            plan, text = self._apply(arguments)
            return ToolResult(call.id, text), (plan,)
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            why = f"{forget_matching.FILTER_CONTEXT} cannot take these arguments: {error}."
        except (MatchingFailed, Rejected) as failure:
            why = str(failure)
        return ToolResult(call.id, why, is_error=True), ()

    async def _preview(self, arguments: FilterArguments) -> str:
        memory, opened = self._memory, self._memory.open
        assert opened
        if self._applied:
            raise MatchingFailed("A filter was already applied in this dialog.")
        self._confirmed = None
        if arguments.mode != opened.planning:
            raise MatchingFailed(f"The user asked to {opened.planning}, not to {arguments.mode}.")
        # Turns that only this planning turn has no room for return to the window after it.
        window = memory.full_window
        apart = window.first
        since = window.turns[0].id if window.turns else opened.first
        reading = load_window_turns(memory.run, memory.agent, since, apart.id if apart else 0)
        settled, turns = await self._context.load(reading)
        ids = await self._match(turns, arguments.criteria or opened.criteria)
        selection = matching_turns = close_selection(settled, turns, ids)
        matches = _list_messages(selection)
        if arguments.mode == "remember":
            matching_ids = {row.id for row in matches}
            rest = (row.id for turn in turns for row in turn.sent_rows if row.id not in matching_ids)
            beyond = await self._context.load(load_ranges_before(memory.run, memory.agent, since))
            selection = Selection(close_selection(settled, turns, rest).turns, _without_turn(beyond, apart))
        if not matches or not (selection.turns or selection.unread_ranges):
            what = "No message matches." if not matches else "Every message matches: there is nothing to forget."
            raise MatchingFailed(f"{what} Nothing was changed.")
        if not await _confirm(self._context, arguments.mode, selection):
            raise MatchingFailed("The user declined. Nothing was changed.")
        total = sum(len(turn.sent_rows) for turn in turns)
        self._confirmed = arguments.mode, selection, frozenset(row.id for row in matches), total
        return forget_matching.format_preview(matches, sum(each.tokens for each in matching_turns.turns))

    def _apply(self, arguments: FilterArguments) -> tuple[FilterPlanned, str]:
        if self._confirmed is None:
            raise MatchingFailed("The user has not confirmed a preview in this dialog: nothing can be applied.")
        mode, selection, matches, total = self._confirmed
        ids = frozenset(arguments.message_ids)
        # Of many matches the model was shown only the first: these, or no ids at all, mean all matches.
        many = len(matches) > forget_matching.MAX_PREVIEWED
        shown = frozenset(sorted(matches)[: forget_matching.MAX_PREVIEWED])
        if arguments.mode != mode or not (ids == matches or (many and ids in (shown, frozenset()))):
            raise MatchingFailed(
                "This is not the list that the user has confirmed. Apply exactly the ids of the preview."
            )
        self._confirmed, self._applied = None, True
        plan = FilterPlanned(selection.ranges, selection.ids, selection.messages, selection.tokens)
        return plan, forget_matching.format_applied(selection.messages, total)

    async def _match(self, turns: Sequence[EndedTurn], criteria: str) -> frozenset[int]:
        """Return the ids of the messages that match. Raise MatchingFailed if a part could not be searched."""
        memory = self._memory
        fixed_bytes = len(forget_matching.MATCH_SYSTEM_PROMPT) + 2 * len(msgspec.json.encode(criteria))
        max_bytes = self._max_request_bytes * 4 // 5 - fixed_bytes
        if max_bytes < 400:
            raise MatchingFailed(f"These criteria are too long for {memory.model}.")
        parts = forget_matching.split_into_parts(turns, memory.used / max(1, memory.limits.context), max_bytes)
        semaphore = asyncio.Semaphore(MAX_PARALLEL_PARTS)

        async def match_part(part: MatchBatch) -> frozenset[int] | str:
            async with semaphore:
                return await self._ask_model(part, criteria)

        answers = await asyncio.gather(*map(match_part, parts))
        known = frozenset[int]().union(*(each for each in answers if not isinstance(each, str)))
        for number, answer in enumerate(answers, 1):
            if isinstance(answer, str):
                part = f"part {number} of {len(answers)}" if len(answers) > 1 else "the conversation"
                shown = f" In the other parts matched: {', '.join(map(str, sorted(known)))}." if known else ""
                raise MatchingFailed(f"Searching {part} failed: {answer} Nothing was changed.{shown}")
        return known

    @property
    def _max_request_bytes(self) -> int:
        """The largest size of a request in bytes."""
        memory = self._memory
        return tokens.max_bytes(memory.provider, memory.model, memory.room)

    async def _ask_model(self, part: MatchBatch, criteria: str) -> frozenset[int] | str:
        """Return the matching ids of one part, or the reason for the failure; retry an unusable answer once."""
        prompt = question = forget_matching.match_question(part, criteria)
        for last in (False, True):
            done = await complete(
                self._context.provider(self._memory.model),
                self._memory.model,
                forget_matching.MATCH_SYSTEM_PROMPT,
                prompt,
                purpose="matching",
                max_output=min(output_reserve(self._memory.limits), MATCH_ANSWER_TOKENS + ID_TOKENS * len(part.ids)),
                price=self._context.price,
                schema=forget_matching.ANSWER_SCHEMA,
            )
            for usage in done.usage:
                self._context.put_input(UsageRecorded(usage))
            if done.failure:
                return done.failure.text
            if done.stop in UNUSABLE_STOPS:  # a retry would end in the same way
                return f"{self._memory.model} {UNUSABLE_STOPS[done.stop]}."
            ids = forget_matching.parse_matches(done.text, part)
            if not isinstance(ids, str):
                return ids
            if last:
                return f"{self._memory.model} did not give a usable answer. {ids}"
            # Short enough for the rest of the room, even if JSON writes six bytes for a character.
            prompt = (
                f"{question}\n\n{forget_matching.repair(done.text[: min(2000, self._max_request_bytes // 40)], ids)}"
            )
        raise AssertionError("unreachable")


def _without_turn(ranges: tuple[tuple[int, int], ...], turn: Turn | None) -> tuple[tuple[int, int], ...]:
    """Return the ranges without `turn`, which is sent although it stands before the window."""
    if turn is None:
        return ranges
    parts = [((first, min(last, turn.id - 1)), (max(first, turn.end + 1), last)) for first, last in ranges]
    return tuple((first, last) for pair in parts for first, last in pair if first <= last)


def _list_messages(selection: Selection) -> list[StoredEvent]:
    """Return the messages of a selection."""
    return [row for each in selection.turns for row in each.turn.sent_rows if not each.ids or row.id in each.ids]
