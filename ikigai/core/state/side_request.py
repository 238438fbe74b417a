"""This module builds the request of a side question: the next request of an agent, with the question behind it."""

from ikigai.core.events import Choices
from ikigai.core.messages import Message, Role, Text
from ikigai.core.request.build import Request
from ikigai.core.state.memory import AgentStatus, Memory, next_request, replace

SIDE_QUESTION = """\
[Side question of the user. Answer it briefly from what is above. Call no tools. Neither the question nor your answer \
stays in the conversation, and the work under way goes on as it was.]

{question}"""


def side_request(memory: Memory, prompt: Choices, question: str) -> Request:
    """Return the request with the settings of the system prompt `prompt`, as the next turn begins with them.

    It begins byte for byte like the next request, tools included, so that the provider's cache serves it. Of an open
    turn it has all but calls that wait for their results; a planning talk is left out. A message of the user that waits
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
