"""Carry out /btw: ask the model a question about the present context, of which the log keeps the usage alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import structs

from ikigai.agent.request.one_shot import complete_request
from ikigai.core.errors import IkigaiError, NoModel, Rejected
from ikigai.core.events.messages import Message, Role, StopReason, Text
from ikigai.core.request.reply import NO_TEXT
from ikigai.core.state.decisions.fallback import is_down, next_fallback, on_fallback
from ikigai.core.state.inputs import UsageRecorded
from ikigai.core.state.memory import AgentStatus, Memory, next_request, replace
from ikigai.core.text.sanitize import storable

if TYPE_CHECKING:
    from ikigai.agent.loop import AgentLoop
    from ikigai.app.run.services import Services
    from ikigai.core.events.events import Choices
    from ikigai.core.request.build import Request

PURPOSE = "btw"
"""The purpose of the request in the ledger."""
SIDE_QUESTION = """\
[Side question of the user. Answer it briefly from what is above. Call no tools. Neither the question nor your answer \
stays in the conversation, and the work under way goes on as it was.]

{question}"""


async def ask_side_question(services: Services, loop: AgentLoop, question: str, on_text: Callable[[str], None]) -> str:
    """Return the answer; `on_text` gets it as it comes. Raise Rejected without a model, IkigaiError for a failure.

    The usage goes to the loop, also for a cancelled request.
    """
    memory = loop.memory
    if not memory.model:
        raise NoModel()
    first, price, asked = memory.model, loop.billing, storable(question)
    while True:
        following, request = next_fallback(memory), side_request(memory, services.turn_prompt(memory), asked)
        done = await complete_request(
            services.pool.provider(memory.model),
            memory.model,
            structs.replace(request, has_fallback=bool(following)),
            purpose=PURPOSE,
            price=price,
            on_usage=lambda usage: loop.put_input(UsageRecorded(usage)),
            on_text=on_text,
            redactor=services.redaction.redactor(),
        )
        if not (following and done.failure and not done.text and is_down(memory, done.failure.kind)):
            break
        memory = on_fallback(memory, following)
    if done.failure:
        raise IkigaiError(done.failure.text, done.failure.remedy)
    if done.stop is StopReason.TOOLS and not done.text.strip():
        raise Rejected("The model wanted to call tools, which /btw does not run.", "Send the question as a message.")
    other = f"\n\n(Answered by {memory.model}, because {first} is down.)" * (memory.model != first)
    return (done.text.strip() or NO_TEXT) + " …" * (done.stop in (StopReason.LENGTH, StopReason.PAUSED)) + other


def side_request(memory: Memory, prompt: Choices, question: str) -> Request:
    """Return the next request with the question behind it, under the settings of the system prompt `prompt`, with which
    the next turn begins.

    It begins byte for byte like the next request, tools included, so that the provider's cache serves it. It has all of
    an open turn except calls that wait for their results; a planning talk is left out. A message of the user that waits
    for its reply takes in the question: many chat templates refuse two messages of the user in a row.
    """
    memory = replace(memory, settings={**memory.settings, **prompt})
    turn = memory.open
    if turn and (turn.planning or turn.alone):
        memory = replace(memory, open=None, window=memory.full_window)
    elif turn and memory.status is AgentStatus.RUNNING_TOOLS:
        last = max(n for n, message in enumerate(turn.messages) if message.role is Role.ASSISTANT)
        memory = replace(memory, open=replace(turn, messages=turn.messages[:last]))
    request = next_request(memory)
    asked, messages = (Text(SIDE_QUESTION.format(question=question)),), request.messages
    if messages and messages[-1].role is Role.USER:
        asked, messages = (*messages[-1].blocks, *asked), messages[:-1]
    return replace(request, messages=(*messages, Message(Role.USER, asked)))
