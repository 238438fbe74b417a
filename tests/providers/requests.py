"""Random requests, for tests of what is sent."""

import json

from hypothesis import strategies as st

from ikigai.core.messages import Message, Role, Text, Thinking, ToolCall, ToolResult, ToolSpec
from ikigai.core.request import Request

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(
    ["", '"', "\\", "\0\x01\x1f\x7f", "\n\r\t", "👩‍👩‍👧‍👦 é 漢字", "</script>", "\u2028", '{"a": "b"}']
)
objects = st.dictionaries(words, words, max_size=2).map(json.dumps)
calls = st.builds(ToolCall, words, words, objects, malformed=words)
users = st.builds(lambda text: Message(Role.USER, tuple(map(Text, text))), st.lists(words, min_size=1, max_size=2))
assistants = st.lists(
    st.builds(Text, words) | st.builds(Thinking, words, words, words) | calls, min_size=1, max_size=4
).map(lambda blocks: Message(Role.ASSISTANT, tuple(blocks)))
results = st.lists(st.builds(ToolResult, words, words, st.booleans()), min_size=1, max_size=3).map(
    lambda blocks: Message(Role.TOOL, tuple(blocks))
)
requests = st.builds(
    Request,
    model=words,
    messages=st.lists(users | assistants | results, min_size=1, max_size=6).map(tuple),
    system=words,
    tools=st.lists(st.builds(ToolSpec, words, words, objects), max_size=2).map(tuple),
    level=st.sampled_from(["", "off", "min", "low", "med", "high"]),
    max_output=st.sampled_from([0, 1, 8192]),
)
