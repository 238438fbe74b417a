"""Damaged files of unsaved events are refused in words, whatever they hold."""

import json

import pytest

from ikigai.core.errors import Rejected
from ikigai.core.relocation.unsaved import FORMAT, VERSION, read

ID, AGENT = "00000000-0000-7000-8000-000000000001", "00000000-0000-4000-8000-000000000002"
HEAD = {"format": FORMAT, "version": VERSION, "agent": AGENT, "name": "a", "behind": None, "count": 1}
LINE = {"id": ID, "kind": "user", "content": "hi"}


def file(head: dict[str, object], *lines: dict[str, object] | str) -> bytes:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in (head, *lines)]
    return "".join(f"{text}\n" for text in texts).encode()


def test_what_it_wrote_is_read():
    assert read("f", file(HEAD, LINE)).ids == (ID,)


def test_name_is_one_line_without_escapes():
    assert "\n" not in read("f", file({**HEAD, "name": "x\nikigai: fake"}, LINE)).name


@pytest.mark.parametrize(
    "text",
    [
        file({**HEAD, "agent": f"{AGENT}\n"}, LINE),
        file({**HEAD, "behind": f"{ID}\n"}, LINE),
        file(HEAD, {**LINE, "id": f"{ID}\n"}),
        file({**HEAD, "count": 2}, LINE, LINE),
        file(HEAD, f'{{"id": "{ID}", "kind": "user", "content": "hi", "data": {{"x": {"[" * 5000}{"]" * 5000}}}}}'),
        f'{{"format": "{FORMAT}", "x": {"[" * 5000}{"]" * 5000}}}\n'.encode(),
    ],
)
def test_file_that_was_changed_is_refused_in_words(text: bytes):
    with pytest.raises(Rejected, match="Nothing was recovered"):
        read("f", text)


@pytest.mark.parametrize("count", [1, 3])
def test_file_of_an_early_program_is_named_as_such(count: int):
    line = {"agent": "otter", "kind": "user", "content": "hi", "data": None}
    with pytest.raises(Rejected, match=f"has {count} unsaved events? of otter by an ikigai before 0.1"):
        read("f", file(line, *[line] * (count - 1)))
    with pytest.raises(Rejected, match="contains no unsaved events of ikigai"):
        read("f", file(line, "no JSON"))
