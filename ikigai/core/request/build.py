"""What a model is sent: the messages of a turn, their pairs repaired, and the request around them."""

from collections.abc import Iterable

from ikigai.core.events import AssistantMessage, Ending, Event, UserMessage
from ikigai.core.messages import ASSISTANT, TOOL, USER, Block, Message, Text, ToolCall, ToolResult, ToolSpec
from ikigai.core.record import Record

NOT_RUN = "Not run: the turn was interrupted before this call began."
OUTCOME_UNKNOWN = "Interrupted, outcome unknown: this call had begun; do not assume that it ran or did not run."

UNANSWERED = {
    Ending.COMPLETED: "[noted]",
    Ending.INTERRUPTED: "[interrupted]",
    Ending.FAILED: "[no reply]",
}
"""What stands for the reply in a turn that ended without one, so that user and model go on taking turns."""


PLANNING = """\
/{mode} {criteria}

Plan with the tool filter_context what leaves our context. Call it once with action "preview", mode "{mode}" and the \
criteria above; it finds the messages, shows them to me and asks me. When its result comes I have agreed: call it once \
with action "apply", mode "{mode}" and exactly the ids of matching_messages as message_ids. If it reports an error, do \
not try again. At the end say in one short sentence what was done."""
"""What the first message of a planning talk says to the model; people see the command."""


MAILED = "[Message from agent {}, not from the user]\n\n"
"""What stands before the words of another agent."""


def mailed(text: str) -> bool:
    """Whether this is a message of another agent."""
    start, _, rest = MAILED.partition("{}")
    return text.startswith(start) and rest in text


def plans(text: str) -> bool:
    """Whether this is the first message of a planning talk."""
    return text.startswith(("/forget ", "/remember ")) and text.endswith(PLANNING.rpartition("{mode}")[2])


class Request(Record, frozen=True):
    """One request to a model, before any vendor's form: `model` is the vendor's own name, without the provider.

    With a JSON `schema` the reply is to be one object of that form; a model that cannot be held to it is not, so that
    the words have to ask for it, too.
    """

    model: str
    messages: tuple[Message, ...] = ()
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    level: str = ""
    max_output: int = 0
    schema: str = ""


def grow(messages: tuple[Message, ...], event: Event) -> tuple[Message, ...]:
    """The messages of a turn with one more event: an event makes a message, joins the last one, or is not sent."""
    grown = list(messages)
    return tuple(grown) if join(grown, event) else messages


def join(messages: list[Message], event: Event) -> tuple[Block, ...]:
    """Do so in place. Returns what came to be sent; whether it made a message, the length of the list says."""
    if type(event) is AssistantMessage:
        sent = [block for block in event.blocks if (block.text if isinstance(block, Text) else block.signature)]
        role, blocks = ASSISTANT, tuple(sent)
    elif type(event) is ToolCall:
        role, blocks = ASSISTANT, (event,)
    elif type(event) is ToolResult:
        role, blocks = TOOL, (_named(event, messages),)
    elif type(event) is UserMessage:
        text, images = event.text, event.images
        if event.planning:
            text = PLANNING.format(mode=event.planning, criteria=text)
        elif event.sender:
            text = MAILED.format(event.sender) + text
        role, blocks = USER, (*images, Text(text)) if text or not images else images
    else:
        return ()
    if blocks:
        newest = messages[-1] if messages else None
        if newest and newest.role is role and role is not USER:
            messages[-1] = Message(role, newest.blocks + blocks)
        else:
            messages.append(Message(role, blocks))
    return blocks


def _named(result: ToolResult, messages: list[Message]) -> ToolResult:
    """The result with the name of the tool that was called: Google wants to hear it again."""
    name = _called(result.call_id, messages)
    if result.name == name and not result.diff:
        return result
    return ToolResult(result.call_id, result.content, result.is_error, name, result.images)


def _called(id: str, messages: list[Message]) -> str:
    for message in reversed(messages):
        for block in message.blocks:
            if type(block) is ToolCall and block.id == id:
                return block.name
    return ""


def paired(messages: Iterable[Message], started: frozenset[str]) -> tuple[Message, ...]:
    """The same messages with every call answered once, right behind it, in the order of the calls.

    A call without a result gets an error that says whether it may have run (`started` holds the ids of calls known to
    have begun); a result without a call, a second result, and a second call under an id are left out. Done twice it
    changes nothing.
    """
    messages = tuple(messages)
    if _is_paired(messages):
        return messages
    results: dict[str, ToolResult] = {}
    for message in messages:
        for block in message.blocks:
            if isinstance(block, ToolResult):
                results.setdefault(block.call_id, block)
    called: set[str] = set()
    found: list[Message] = []
    for message in messages:
        kept: list[Block] = []
        answers: list[ToolResult] = []
        for block in message.blocks:
            if isinstance(block, ToolCall):
                if block.id in called:
                    continue
                called.add(block.id)
                answers.append(_answer(block, results.get(block.id), started))
            if not isinstance(block, ToolResult):
                kept.append(block)
        if kept:
            found.append(message if len(kept) == len(message.blocks) else Message(message.role, tuple(kept)))
        if answers:
            found.append(Message(TOOL, tuple(answers)))
    return tuple(found)


def _is_paired(messages: tuple[Message, ...]) -> bool:
    """Whether that changes nothing, as with most turns."""
    waiting: list[tuple[str, str]] = []
    called: set[str] = set()
    for message in messages:
        calls: list[tuple[str, str]] = []
        results: list[tuple[str, str]] = []
        for block in message.blocks:
            if type(block) is ToolCall:
                if block.id in called:
                    return False
                called.add(block.id)
                calls.append((block.id, block.name))
            elif type(block) is ToolResult:
                results.append((block.call_id, block.name))
        if results != waiting or not message.blocks or (results and len(results) < len(message.blocks)):
            return False
        if results and message.role is not TOOL:
            return False
        waiting = calls
    return not waiting


def _answer(call: ToolCall, result: ToolResult | None, started: frozenset[str]) -> ToolResult:
    if result is None:
        return ToolResult(call.id, OUTCOME_UNKNOWN if call.id in started else NOT_RUN, is_error=True, name=call.name)
    if result.name == call.name:
        return result
    return ToolResult(call.id, result.content, result.is_error, call.name, result.images)


def closed(messages: tuple[Message, ...], started: frozenset[str], ending: Ending) -> tuple[Message, ...]:
    """The messages of a turn that has ended: pairs whole, and the last word the model's."""
    whole = paired(messages, started)
    if whole and whole[-1].role is not ASSISTANT:
        whole = (*whole, Message(ASSISTANT, (Text(UNANSWERED[ending]),)))
    return whole


def summarised(text: str, turns: int) -> tuple[Message, ...]:
    """How a summary stands in a request: a user's message and a short answer, so that the two go on taking turns."""
    said = SUMMARY.format(turns=f"{turns:,} turn{'s' * (turns != 1)}", text=text)
    return Message(USER, (Text(said),)), Message(ASSISTANT, (Text(UNANSWERED[Ending.COMPLETED]),))


SUMMARY = "[summary of the earlier conversation, {turns} that are no longer shown]\n\n{text}\n\n[end of the summary]"
"""The one block that stands for what was condensed."""


def notice(older: int) -> Message | None:
    """What stands right before the first sent turn when `older` messages before it are left out."""
    if not older:
        return None
    plural = "" if older == 1 else "s"
    return Message(USER, (Text(f"[conversation truncated — {older} older message{plural} omitted]"),))
