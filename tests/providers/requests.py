"""Random requests and histories, for tests of what is sent."""

import base64
import json

from hypothesis import strategies as st

from ikigai.core.context.forget_matching import ANSWER_SCHEMA
from ikigai.core.events.messages import (
    Document,
    DocumentKind,
    Image,
    Message,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from ikigai.core.request.build import Request, pair_calls

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(
    ["", '"', "\\", "\0\x01\x1f\x7f", "\n\r\t", "👩‍👩‍👧‍👦 é 漢字", "</script>", "\u2028", '{"a": "b"}']
)
objects = st.dictionaries(words, words, max_size=2).map(json.dumps)
calls = st.builds(ToolCall, words, words, objects, malformed=words)
images = st.builds(
    Image,
    st.sampled_from(["image/png", "image/jpeg", "image/webp"]),
    st.binary(max_size=60).map(lambda data: base64.b64encode(data).decode()),
    st.integers(1, 4000),
    st.integers(1, 4000),
    words,
)
pdfs = st.builds(
    Document,
    words,
    words,
    st.just(DocumentKind.PDF),
    data=st.binary(min_size=1, max_size=60).map(lambda data: base64.b64encode(data).decode()),
    pages=st.integers(1, 100),
)
users = st.lists(st.builds(Text, words) | images | pdfs, min_size=1, max_size=3).map(
    lambda blocks: Message(Role.USER, tuple(blocks))
)
assistants = st.lists(
    st.builds(Text, words) | st.builds(Thinking, words, words, words) | calls, min_size=1, max_size=4
).map(lambda blocks: Message(Role.ASSISTANT, tuple(blocks)))
shown = st.just(()) | st.tuples(images)
results = st.lists(st.builds(ToolResult, words, words, st.booleans(), words, shown), min_size=1, max_size=3).map(
    lambda blocks: Message(Role.TOOL, tuple(blocks))
)


def turn(users: Message, steps: list[tuple[Message, list[ToolResult]]]) -> list[Message]:
    """A turn whose calls have some results of their own, some of others', and some twice."""
    found = [users]
    for said, stray in steps:
        own = [ToolResult(call.id, call.name, len(call.name) % 2 > 0) for call in said.calls[::2]]
        found += [said, Message(Role.TOOL, (*own, *stray))] if own or stray else [said]
    return found


turns = st.builds(
    turn, users, st.lists(st.tuples(assistants, st.lists(st.builds(ToolResult, words, words), max_size=1)), max_size=3)
)
histories = st.lists(turns, min_size=1, max_size=3).map(
    lambda turns: pair_calls([message for turn in turns for message in turn], frozenset())
)
"""Whole conversations as a request holds them: pairs put right, everything else as random as it comes."""

requests = st.builds(
    Request,
    model=words,
    messages=st.lists(users | assistants | results, min_size=1, max_size=6).map(tuple) | histories,
    system=words,
    tools=st.lists(st.builds(ToolSpec, words, words, objects), max_size=2).map(tuple),
    level=st.sampled_from(["", "off", "min", "low", "med", "high"]),
    max_output=st.sampled_from([0, 1, 8192]),
    schema=st.sampled_from(["", ANSWER_SCHEMA]),
)
