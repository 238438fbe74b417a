"""Tool `ask_user`, by which a model asks the user a question with choices."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from ikigai.core.ports import Ask
from ikigai.core.text.sanitize import clean_line
from ikigai.core.views.questions import Choice, Question
from ikigai.tools.base import Effect, EffectKind, OnOutput, ToolOutput

ASK_SET = "ask"
CHOICE_KEYS = "123456789"
TYPE_KEY, NO_ANSWER_KEY = "t", "n"
CANNOT_ASK = "The user cannot be asked here. Decide yourself, or end your turn with the question."


class AskUserArguments(msgspec.Struct, forbid_unknown_fields=True):
    question: Annotated[str, Meta(min_length=1, max_length=2_000, description="One question, with what it is about.")]
    choices: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=200)]],
        Meta(max_length=len(CHOICE_KEYS), description="Answers to choose from; the user can type another one."),
    ] = []


class AskUserTool:
    """Tool that asks the user."""

    name, set, arguments = "ask_user", ASK_SET, AskUserArguments
    description = (
        "Asks the user a question and returns the answer. Use it where the work cannot go on without a decision that "
        "only the user can make."
    )

    async def preview(self, arguments: AskUserArguments) -> Effect:
        return Effect(EffectKind.NOTHING, arguments.question)

    async def run(self, arguments: AskUserArguments, progress: OnOutput) -> ToolOutput:
        return ToolOutput(CANNOT_ASK, failed=True)

    async def run_asking(self, arguments: AskUserArguments, progress: OnOutput, ask: Ask | None) -> ToolOutput:
        if ask is None:
            return ToolOutput(CANNOT_ASK, failed=True)
        answer = await ask(build_question(arguments))
        if answer.not_asked:
            return ToolOutput(CANNOT_ASK, failed=True)
        if answer.key in CHOICE_KEYS:
            return ToolOutput(arguments.choices[CHOICE_KEYS.index(answer.key)])
        if answer.key == TYPE_KEY and answer.words.strip():
            return ToolOutput(answer.words)
        return ToolOutput("The user gave no answer.")


def build_question(arguments: AskUserArguments) -> Question:
    """Return the question as the user is asked it."""
    lines = tuple(clean_line(line) for line in arguments.question.splitlines() if line.strip())
    offered = tuple(Choice(key, clean_line(text)) for key, text in zip(CHOICE_KEYS, arguments.choices, strict=False))
    typed = Choice(TYPE_KEY, "type an answer" if not offered else "another answer", "Your answer?")
    return Question(
        "The model asks", lines, (*offered, typed, Choice(NO_ANSWER_KEY, "no answer")), default=NO_ANSWER_KEY
    )
