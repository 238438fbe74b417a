"""Write one summary: ask a model, part by part if necessary, and check its answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from decimal import Decimal
from typing import NamedTuple

from ikigai.agent.context.forget import ForgetContext
from ikigai.agent.request.one_shot import Completion, complete, complete_request
from ikigai.core.commands.arguments import parse_model
from ikigai.core.context.condense_plan import (
    SummaryScope,
    appended_request,
    format_turns,
    join_into_parts,
    json_bytes,
    part_question,
    summary_defect,
)
from ikigai.core.context.condense_prompt import CONDENSE_PROMPT
from ikigai.core.context.condense_threshold import CondenseOptions
from ikigai.core.errors import ConfigError, NoModel, Rejected
from ikigai.core.events.events import UsageReported
from ikigai.core.events.messages import StopReason
from ikigai.core.request.model import Provider
from ikigai.core.state.inputs import UsageRecorded
from ikigai.core.state.memory import Memory, output_reserve
from ikigai.core.text import tokens
from ikigai.system.paths import expand_home

THINKING_TOKENS = 4_000
"""Tokens that an answer may take beside the summary: most models think first, even unasked."""
OUTPUT_SHARE_OF_CONTEXT = 8
"""A summary may take 1/8 of the context of the model that writes it, because that has to read it again."""
QUESTION_MARGIN_BYTES = 400
"""Bytes of a question beside the conversation, the summary so far and the user's focus."""
MAX_PROMPT_BYTES = 50_000
"""Characters of a prompt file."""
UNUSABLE_STOPS = {
    StopReason.LENGTH: "gave a summary that is too long",
    StopReason.REFUSED: "refused to summarise",
    StopReason.TOOLS: "called tools instead of summarising",
    StopReason.PAUSED: "searched the web instead of summarising",
}

CONTEXT_UNCHANGED = "The context has not changed."
RETRY_REMEDY = "condense_model in the configuration names another model."


class WrittenSummary(NamedTuple):
    """The text, the model that wrote it, and the cost in US dollars; None if the cost is unknown."""

    text: str
    model: str
    cost: float | None


class SummaryWriter:
    """Writes one summary part by part; each question has the summary of the parts before it."""

    def __init__(
        self, context: ForgetContext, memory: Memory, scope: SummaryScope, focus: str, options: CondenseOptions
    ) -> None:
        self._context, self._memory, self._scope, self._focus, self._options = context, memory, scope, focus, options
        choice = parse_model(options.model) if options.model else {"model": memory.model}
        self._model, self._level = str(choice.get("model") or ""), str(choice.get("level") or "")
        self._cost: Decimal | None = Decimal(0)

    async def write(self) -> WrittenSummary:
        """Return the summary. Raise Rejected if there is no model or no usable answer, ConfigError for a bad prompt."""
        if not self._model:
            raise NoModel()
        prompt = await asyncio.to_thread(read_prompt, self._options.prompt_file)
        scope, summary = self._scope, self._scope.earlier.text if self._scope.earlier else ""
        own = self._model == self._memory.model and not self._level
        price, on_usage = self._context.price, self._record_usage
        request = appended_request(self._memory, scope, prompt, self._focus, self._allowance) if own else None
        if request:
            summary = await self._checked(
                complete_request(
                    self._provider, self._model, request, purpose="summary", price=price, on_usage=on_usage
                )
            )
        else:
            parts = join_into_parts(format_turns(scope.turns), self._room(prompt, summary))
            for number, part in enumerate(parts, 1):
                text = part_question(part, summary, self._focus, self._allowance, last=number == len(parts))
                completion = complete(
                    self._provider,
                    self._model,
                    prompt,
                    text,
                    purpose="summary",
                    max_output=self._max_output,
                    level=self._level,
                    price=price,
                    on_usage=on_usage,
                )
                summary = await self._checked(completion)
        if defect := summary_defect(self._memory, summary, scope):
            raise Rejected(f"{self._model} {defect}: it was discarded.", f"{CONTEXT_UNCHANGED} {RETRY_REMEDY}")
        return WrittenSummary(summary.strip(), self._model, None if self._cost is None else float(self._cost))

    def _room(self, prompt: str, earlier: str) -> int:
        """Return the bytes of conversation that one question has room for."""
        limits = self._memory.run.limits(self._model)
        max_tokens = limits.context - self._max_output - limits.context // 10
        summary = max(json_bytes(earlier), 2 * tokens.max_bytes("", self._model, self._allowance))  # that so far
        fixed = json_bytes(prompt) + json_bytes(self._focus) + summary + QUESTION_MARGIN_BYTES
        left = tokens.max_bytes("", self._model, max_tokens) - fixed
        if left < QUESTION_MARGIN_BYTES:
            what = f"The context of {self._model} is too small to summarise anything."
            raise Rejected(what, f"{CONTEXT_UNCHANGED} {RETRY_REMEDY}")
        return left

    @property
    def _allowance(self) -> int:
        return min(self._scope.allowance, self._memory.run.limits(self._model).context // OUTPUT_SHARE_OF_CONTEXT)

    @property
    def _max_output(self) -> int:
        return min(output_reserve(self._memory.run.limits(self._model)), 2 * self._allowance + THINKING_TOKENS)

    @property
    def _provider(self) -> Provider:
        return self._context.provider(self._model)

    async def _checked(self, completion: Awaitable[Completion]) -> str:
        """Return the text of the answer. Raise Rejected if it is unusable."""
        done, remedy = await completion, f"{CONTEXT_UNCHANGED} {RETRY_REMEDY}"
        if failure := done.failure:
            raise Rejected(f"There is no summary: {failure.text}", f"{CONTEXT_UNCHANGED} {failure.remedy}".strip())
        if done.stop in UNUSABLE_STOPS:
            raise Rejected(f"{self._model} {UNUSABLE_STOPS[done.stop]}: it was discarded.", remedy)
        if not done.text.strip():
            raise Rejected(f"{self._model} returned no text: there is no summary.", remedy)
        return done.text

    def _record_usage(self, usage: UsageReported) -> None:
        known = usage.cost is not None and self._cost is not None
        self._cost = self._cost + Decimal(repr(usage.cost)) if known and self._cost is not None else None
        self._context.put_input(UsageRecorded(usage))


def read_prompt(file: str) -> str:
    """Return the text of this file, or ikigai's own prompt if `file` is "". Raise ConfigError."""
    if not file:
        return CONDENSE_PROMPT
    path = expand_home(file)
    if path.exists() and not path.is_file():  # opening a pipe would wait for its other end
        raise ConfigError(f"condense_prompt_file {file} is not a regular file.", "Correct it in the configuration.")
    try:
        with path.open(encoding="utf-8") as opened:
            text = opened.read(MAX_PROMPT_BYTES + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        what = f"condense_prompt_file {file} cannot be read: {why}."
        raise ConfigError(what, "Correct it in the configuration.") from None
    if len(text) > MAX_PROMPT_BYTES or not text.strip():
        what = "is empty" if not text.strip() else f"is longer than {MAX_PROMPT_BYTES:,} characters"
        raise ConfigError(f"condense_prompt_file {file} {what}.", "Correct it in the configuration.")
    return text
