"""Build the input of a model: the messages of a turn, each call with its result, and the request."""

import hashlib
from collections.abc import Iterable

from msgspec.structs import replace

from ikigai.core.events.events import AssistantMessage, Ending, Event, TurnsRecalled, UserMessage
from ikigai.core.events.messages import ASSISTANT, TOOL, USER, Block, Message, Text, ToolCall, ToolResult, ToolSpec
from ikigai.core.events.record import Record
from ikigai.core.tools.vendor_search import UNKNOWN_OUTCOME

NOT_RUN = "Not run: the turn was interrupted before this call began."
OUTCOME_UNKNOWN = "Interrupted, outcome unknown: this call had begun; do not assume that it ran or did not run."

REPLY_PLACEHOLDERS = {
    Ending.COMPLETED: "[noted]",
    Ending.INTERRUPTED: "[interrupted]",
    Ending.FAILED: "[no reply]",
}
"""Text in the place of a missing reply, so that user and model go on taking turns."""

CONTINUE_TEXT = "[continue]"
"""A message of the user behind a reply that paused, for a model that did not write it: newer models of Anthropic refuse
a request that ends with a reply.
"""

PLANNING_MESSAGE = """\
/{mode} {criteria}

Plan with the tool filter_context what leaves our context. Call it once with action "preview", mode "{mode}" and the \
criteria above; it finds the messages, shows them to me and asks me. When its result comes I have agreed: call it once \
with action "apply", mode "{mode}" and exactly the ids of matching_messages as message_ids. If it reports an error, do \
not try again. At the end say in one short sentence what was done."""
"""The first message of a planning talk for the model; people see the command."""

MAIL_PREFIX = "[Message from agent {}, not from the user]\n\n"
"""Text before a message of another agent."""


def is_mail(text: str) -> bool:
    """Return True if the text is a message of another agent."""
    start, _, end = MAIL_PREFIX.partition("{}")
    return text.startswith(start) and end in text


def is_planning(text: str) -> bool:
    """Return True if the text is the first message of a planning talk."""
    return text.startswith(("/forget ", "/remember ")) and text.endswith(PLANNING_MESSAGE.rpartition("{mode}")[2])


class Request(Record, frozen=True):
    """One request to a model, in no vendor's format."""

    model: str
    """The vendor's own name, without the provider."""
    messages: tuple[Message, ...] = ()
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    level: str = ""
    max_output: int = 0
    """The wanted output limit in tokens."""
    schema: str = ""
    """JSON schema of the reply, one object. Not every model can be held to it, so the prompt also has to ask for it."""
    schema_required: bool = False
    """True if `schema` is never left out: a model that refuses it fails the request."""
    output_cap: int = 0
    """Limit in tokens that no body may exceed; 0 for none."""
    cache_ttl: str = ""
    """Lifetime of the vendor's cache, "5m" or "1h", where the vendor offers a choice."""
    has_fallback: bool = False
    """True if another model answers soon if this one is down."""
    previous_reply: str = ""
    """The provider's id of the reply before this request, with which it is compared if its cache misses."""


def append_event(messages: tuple[Message, ...], event: Event) -> tuple[Message, ...]:
    """Return the messages of a turn with one more event: as a new message, in the last one, or not at all."""
    extended = list(messages)
    return tuple(extended) if join(extended, event) else messages


def join(messages: list[Message], event: Event) -> tuple[Block, ...]:
    """Append the event in place and return its blocks that are sent. The list grows if it made a message."""
    if type(event) is AssistantMessage:
        sent = [block for block in event.blocks if (block.text if isinstance(block, Text) else block.signature)]
        role, blocks = ASSISTANT, tuple(sent)
    elif type(event) is ToolCall:
        role, blocks = ASSISTANT, (event,)
    elif type(event) is ToolResult:
        role, blocks = (ASSISTANT, (event,)) if event.hosted else (TOOL, (_named(event, messages),))
    elif type(event) is UserMessage:
        text, images = event.text, event.images
        if event.planning:
            text = PLANNING_MESSAGE.format(mode=event.planning, criteria=text)
        elif event.sender:
            text = MAIL_PREFIX.format(event.sender) + text
        words = (Text(text),) if text or not images else ()
        role, blocks = USER, (*images, *words, *event.documents)
    elif type(event) is TurnsRecalled:
        role, blocks = USER, (Text(event.text),)
    else:
        return ()
    if blocks:
        newest = messages[-1] if messages else None
        joins = role is not USER or type(event) is TurnsRecalled  # user and model go on taking turns
        if newest and newest.role is role and joins:
            messages[-1] = Message(role, newest.blocks + blocks)
        else:
            messages.append(Message(role, blocks))
    return blocks


def _named(result: ToolResult, messages: list[Message]) -> ToolResult:
    """Return the result with the name of the called tool: Google requires it."""
    name = _called_tool(result.call_id, messages)
    if result.name == name and not result.diff:
        return result
    return ToolResult(result.call_id, result.content, result.is_error, name, result.images)


def _called_tool(id: str, messages: list[Message]) -> str:
    for message in reversed(messages):
        for block in message.blocks:
            if type(block) is ToolCall and block.id == id:
                return block.name
    return ""


def pair_calls(messages: Iterable[Message], started: frozenset[str], is_open: bool = False) -> tuple[Message, ...]:
    """Return the messages with exactly one result for each call, right behind it, in the order of the calls.

    A call without a result gets an error that says if it may have run; `started` are the ids of calls known to have
    begun. A result without a call, a second result, and a second call under an id are left out. The result of a hosted
    call stands in the message of the call. With `is_open` it may still come, if nothing follows that message. The
    function is idempotent.
    """
    messages = tuple(messages)
    if _is_paired(messages):
        return messages
    results: dict[str, ToolResult] = {}
    for message in messages:
        for block in message.blocks:
            if isinstance(block, ToolResult) and not block.hosted:
                results.setdefault(block.call_id, block)
    called: set[str] = set()
    paired: list[Message] = []
    for message in messages:
        blocks: list[Block] = []
        answers: list[ToolResult] = []
        hosted = _hosted_results(message)
        for block in message.blocks:
            if isinstance(block, ToolCall):
                if block.id in called:
                    continue
                called.add(block.id)
                if block.hosted and block.id not in hosted and not (is_open and message is messages[-1]):
                    answer = ToolResult(block.id, UNKNOWN_OUTCOME, True, block.name, hosted=block.hosted)
                    blocks += (block, answer)
                    continue
                if not block.hosted:
                    answers.append(_answer(block, results.get(block.id), started))
            if not isinstance(block, ToolResult) or hosted.get(block.call_id) is block:
                blocks.append(block)
        if blocks:
            paired.append(message if len(blocks) == len(message.blocks) else Message(message.role, tuple(blocks)))
        if answers:
            paired.append(Message(TOOL, tuple(answers)))
    return tuple(paired)


def _hosted_results(message: Message) -> dict[str, ToolResult]:
    """Return, by the ids of the hosted calls of this message, the first result that follows each."""
    called: set[str] = set()
    results: dict[str, ToolResult] = {}
    for block in message.blocks:
        if type(block) is ToolCall and block.hosted:
            called.add(block.id)
        elif type(block) is ToolResult and block.hosted and block.call_id in called:
            results.setdefault(block.call_id, block)
    return results


def _is_paired(messages: tuple[Message, ...]) -> bool:
    """Return True if the messages need no repair, as in most turns."""
    waiting: list[tuple[str, str]] = []
    called: set[str] = set()
    for message in messages:
        blocks = [block for block in message.blocks if type(block) is ToolCall or type(block) is ToolResult]
        if message.role is TOOL:
            own = [(block.call_id, block.name) for block in blocks if type(block) is ToolResult and not block.hosted]
            if not own or own != waiting or len(own) < len(message.blocks):
                return False
            waiting = []
            continue
        if waiting or not message.blocks:
            return False
        hosted: set[str] = set()  # hosted calls without their result
        for block in blocks:
            if type(block) is ToolCall:
                if block.id in called:
                    return False
                called.add(block.id)
                if block.hosted:
                    hosted.add(block.id)
                else:
                    waiting.append((block.id, block.name))
            elif type(block) is ToolResult and block.hosted and block.call_id in hosted:
                hosted.remove(block.call_id)
            else:
                return False
        if hosted:
            return False
    return not waiting


def call_ids(messages: Iterable[Message]) -> list[str]:
    """Return the ids of all calls in these messages."""
    return [block.id for message in messages for block in message.blocks if type(block) is ToolCall]


def distinguish_calls(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the messages of a whole request with each call, and its result, under an id that no earlier one has.

    Some models count their calls from 0 in every context, and vendors refuse a request with one id twice. A new id is a
    function of the messages and as long as the old one, so that sizes stay as measured.
    """
    ids = call_ids(messages)
    if len(ids) == len(taken := set(ids)):
        return messages
    seen: set[str] = set()
    renamed: dict[str, str] = {}
    distinct: list[Message] = []
    for message in messages:
        if calls := [block for block in message.blocks if type(block) is ToolCall]:
            renamed = {call.id: _distinct_id(call.id, taken) for call in calls if call.id in seen}
            seen.update(call.id for call in calls)
        if renamed:
            message = Message(message.role, tuple([_renamed(block, renamed) for block in message.blocks]))
        distinct.append(message)
    return tuple(distinct)


def _renamed(block: Block, renamed: dict[str, str]) -> Block:
    if type(block) is ToolCall and block.id in renamed:
        return replace(block, id=renamed[block.id])
    if type(block) is ToolResult and block.call_id in renamed:
        return replace(block, call_id=renamed[block.call_id])
    return block


def _distinct_id(id: str, taken: set[str]) -> str:
    """Return an id of the same length and shape that is not taken, and take it."""
    places = [at for at, letter in enumerate(id) if letter.isascii() and letter.isalnum()][-MAX_CHANGED:]
    for attempt in range(MAX_ATTEMPTS):
        digits = hashlib.sha256(f"{attempt} {id}".encode(errors="surrogatepass")).hexdigest()
        letters = list(id)
        for place, digit in zip(places, digits, strict=False):
            letters[place] = digit
        if (found := "".join(letters)) not in taken:
            break
    else:  # a very short id in a very long conversation
        found = f"{id}_{len(taken)}"
    taken.add(found)
    return found


MAX_CHANGED, MAX_ATTEMPTS = 16, 100
"""Characters of an id that are changed, from its end, and ids that are tried."""


def _answer(call: ToolCall, result: ToolResult | None, started: frozenset[str]) -> ToolResult:
    if result is None:
        return ToolResult(call.id, OUTCOME_UNKNOWN if call.id in started else NOT_RUN, is_error=True, name=call.name)
    if result.name == call.name:
        return result
    return ToolResult(call.id, result.content, result.is_error, call.name, result.images)


def take_over(messages: tuple[Message, ...], model: str) -> tuple[Message, ...]:
    """Return the messages of an open turn as `model` can go on with them: behind a reply that another model paused in
    for its searches, there is a message of the user.
    """
    last = messages[-1]
    vendors = [block.hosted for block in last.blocks if isinstance(block, ToolCall | ToolResult) and block.hosted]
    if last.role is not ASSISTANT or not vendors or vendors[-1].partition("/")[2] == model.partition("/")[2]:
        return messages
    return (*messages, Message(USER, (Text(CONTINUE_TEXT),)))


def close_turn(messages: tuple[Message, ...], started: frozenset[str], ending: Ending) -> tuple[Message, ...]:
    """Return the messages of an ended turn: each call has its result, and the last message is the model's."""
    paired = pair_calls(messages, started)
    if paired and paired[-1].role is not ASSISTANT:
        paired = (*paired, Message(ASSISTANT, (Text(REPLY_PLACEHOLDERS[ending]),)))
    return paired


def summary_as_messages(text: str, turns: int) -> tuple[Message, ...]:
    """Return a summary of `turns` turns as messages of a user and the model, so that both go on taking turns."""
    summary = SUMMARY_PREFIX.format(turns=f"{turns:,} turn{'s' * (turns != 1)}", text=text)
    return Message(USER, (Text(summary),)), Message(ASSISTANT, (Text(REPLY_PLACEHOLDERS[Ending.COMPLETED]),))


SUMMARY_PREFIX = (
    "[summary of the earlier conversation, {turns} that are no longer shown]\n\n{text}\n\n[end of the summary]"
)
"""The block that replaces the condensed turns."""


def window_notice(older: int) -> Message | None:
    """Return the notice before the first sent turn if `older` messages are left out; None for 0."""
    if not older:
        return None
    plural = "" if older == 1 else "s"
    return Message(USER, (Text(f"[conversation truncated — {older} older message{plural} omitted]"),))
