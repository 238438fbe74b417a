"""One summary being written: what a model is asked, part by part where it has to be, and what its answer is worth."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from ikigai.agent.forget import World
from ikigai.agent.one_shot import Completed, answered, complete
from ikigai.core import tokens
from ikigai.core.commands.arguments import model_choice
from ikigai.core.condense.plan import Covering, beside, failing, parts, question, told, weight
from ikigai.core.condense.prompt import PROMPT
from ikigai.core.condense.threshold import Options
from ikigai.core.errors import ConfigError, Refused
from ikigai.core.events import UsageReported
from ikigai.core.messages import StopReason
from ikigai.core.model import Provider
from ikigai.core.state.inputs import Used
from ikigai.core.state.memory import Memory, output_reserve

THINKING = 4_000
"""Tokens that an answer may take beside the summary: most models think first, asked or not."""
OF_CONTEXT = 8
"""A summary may take this part of the context of the model that writes it, since that has to read it again."""
MARGIN = 400
"""Bytes of a question beside the conversation, the summary so far and what the user wants kept in mind."""
LONGEST_PROMPT = 50_000
"""Characters of a prompt file."""
UNUSABLE = {
    StopReason.LENGTH: "gave a summary longer than it may be",
    StopReason.REFUSED: "refused to summarise",
    StopReason.TOOLS: "called tools instead of summarising",
}

UNCHANGED = "The context is what it was."
AGAIN = "condense_model in the configuration names another model."


class Made(NamedTuple):
    """The text, who wrote it, and what that cost in US dollars; None where nobody knows."""

    text: str
    model: str
    cost: float | None


class Writing:
    """One summary being written: part by part, each with the summary of those before it."""

    def __init__(self, world: World, memory: Memory, of: Covering, focus: str, options: Options) -> None:
        self._world, self._memory, self._of, self._focus, self._options = world, memory, of, focus, options
        choice = model_choice(options.model) if options.model else {"model": memory.model}
        self._model, self._level = str(choice.get("model") or ""), str(choice.get("level") or "")
        self._cost: Decimal | None = Decimal(0)

    async def written(self) -> Made:
        if not self._model:
            raise Refused("There is no model to ask for a summary.", "/model PROVIDER/NAME chooses one.")
        prompt = await asyncio.to_thread(read_prompt, self._options.prompt_file)
        of, summary = self._of, self._of.earlier.text if self._of.earlier else ""
        own = self._model == self._memory.model and not self._level
        asked = beside(self._memory, of, prompt, self._focus, self._allowance) if own else None
        if asked:
            summary = await self._said(answered(self._provider, self._model, asked, **self._terms))
        else:
            pieces = parts(told(of.turns), self._room(prompt, summary))
            for number, part in enumerate(pieces, 1):
                text = question(part, summary, self._focus, self._allowance, last=number == len(pieces))
                limits = {"max_output": self._most_output, "level": self._level, **self._terms}
                summary = await self._said(complete(self._provider, self._model, prompt, text, **limits))
        if why := failing(self._memory, summary, of):
            raise Refused(f"{self._model} {why}: it was discarded.", f"{UNCHANGED} {AGAIN}")
        return Made(summary.strip(), self._model, None if self._cost is None else float(self._cost))

    def _room(self, prompt: str, earlier: str) -> int:
        """Bytes of conversation that one question has room for."""
        limits = self._memory.run.limits(self._model)
        most = limits.context - self._most_output - limits.context // 10
        summary = max(weight(earlier), 2 * tokens.most_bytes("", self._model, self._allowance))  # that so far
        left = tokens.most_bytes("", self._model, most) - weight(prompt) - weight(self._focus) - summary - MARGIN
        if left < MARGIN:
            what = f"The context of {self._model} is too small to summarise anything."
            raise Refused(what, f"{UNCHANGED} {AGAIN}")
        return left

    @property
    def _allowance(self) -> int:
        return min(self._of.allowance, self._memory.run.limits(self._model).context // OF_CONTEXT)

    @property
    def _most_output(self) -> int:
        return min(output_reserve(self._memory.run.limits(self._model)), 2 * self._allowance + THINKING)

    @property
    def _provider(self) -> Provider:
        return self._world.provider(self._model)

    @property
    def _terms(self) -> dict[str, Any]:
        return {"purpose": "summary", "price": self._world.price, "tell": self._spent}

    async def _said(self, asking: Awaitable[Completed]) -> str:
        """The answer. Raises Refused where it is none that can be used."""
        done = await asking
        if done.failure:
            raise Refused(f"There is no summary: {done.failure.text}", f"{UNCHANGED} {done.failure.remedy}".strip())
        if done.stop in UNUSABLE:
            raise Refused(f"{self._model} {UNUSABLE[done.stop]}: it was discarded.", f"{UNCHANGED} {AGAIN}")
        if not done.text.strip():
            raise Refused(f"{self._model} said nothing: there is no summary.", f"{UNCHANGED} {AGAIN}")
        return done.text

    def _spent(self, usage: UsageReported) -> None:
        known = usage.cost is not None and self._cost is not None
        self._cost = self._cost + Decimal(repr(usage.cost)) if known and self._cost is not None else None
        self._world.tell(Used(usage))


def read_prompt(file: str) -> str:
    """The words of this file, ikigai's own without one. Raises ConfigError."""
    if not file:
        return PROMPT
    path = Path(file).expanduser()
    if path.exists() and not path.is_file():  # opening a pipe would wait for its other end
        raise ConfigError(f"condense_prompt_file {file} is no ordinary file.", "Correct it in the configuration.")
    try:
        with path.open(encoding="utf-8") as opened:
            text = opened.read(LONGEST_PROMPT + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise ConfigError(
            f"condense_prompt_file {file} cannot be read: {why}.", "Correct it in the configuration."
        ) from None
    if len(text) > LONGEST_PROMPT or not text.strip():
        what = "is empty" if not text.strip() else f"is longer than {LONGEST_PROMPT:,} characters"
        raise ConfigError(f"condense_prompt_file {file} {what}.", "Correct it in the configuration.")
    return text
