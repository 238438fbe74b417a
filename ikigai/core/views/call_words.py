"""Put a tool call into a few words, and join the calls that only read with their results: each is one line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from ikigai.core.views.transcript import Shown, Speaker, TranscriptBlock


class CallWords(NamedTuple):
    """Words for the calls of a tool: a verb, the argument that follows it, and those that are shown elsewhere.

    `one` and `many` name what a call found, for a tool that only reads: its result is a number in the line of the call.
    """

    verb: str
    subject: str
    hidden: tuple[str, ...] = ()
    one: str = ""
    many: str = ""


CALL_WORDS = {
    "edit_file": CallWords("edit", "path", ("old", "new")),
    "write_file": CallWords("write", "path", ("content",)),
    "read_file": CallWords("read", "path", (), "line", "lines"),
    "list_files": CallWords("list", "path", (), "entry", "entries"),
    "glob": CallWords("glob", "pattern", (), "file", "files"),
    "grep": CallWords("grep", "pattern", (), "line", "lines"),
    "shell": CallWords("shell", "command"),
    "web_fetch": CallWords("fetch", "url"),
}
_RANGE = r"\[lines (\S+) to (\S+) of (\S+?)[;\]]"
"""The first line of the result for a file."""
_PICTURE = r"\[image .*, ([a-z]+/[a-z]+, \d+ × \d+ pixels) as shown\]\Z"
"""The result for a picture."""


def verb_of(tool: str) -> str:
    """Return the word with which a line about a call of the tool begins."""
    return CALL_WORDS[tool].verb if tool in CALL_WORDS else tool


def describe_call(tool: str, arguments: str) -> str:
    """Return a call as people write it, from its arguments as JSON text: a verb and what it is about, or a function."""
    try:
        values = msgspec.json.decode(arguments, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeEncodeError):
        return f"{tool}({arguments})"
    words = CALL_WORDS.get(tool)
    if words is None or not isinstance(subject := values.get(words.subject, ""), str):
        return f"{tool}({', '.join(_pairs(values))})"
    others = {key: value for key, value in values.items() if key not in (words.subject, *words.hidden)}
    return ", ".join((f"{words.verb} {subject}" if subject else words.verb, *_pairs(others)))


def _pairs(values: dict[str, object]) -> list[str]:
    return [
        f"{key}={value if isinstance(value, str) else msgspec.json.encode(value).decode()}"
        for key, value in values.items()
    ]


def is_read(call: TranscriptBlock) -> bool:
    """Return True for the call of a tool that only reads, whose result is told in its line."""
    return call.speaker is Speaker.TOOL_CALL and not call.hosted and bool(getattr(CALL_WORDS.get(call.name), "one", ""))


def join_result(call: TranscriptBlock, result: TranscriptBlock) -> TranscriptBlock | None:
    """Return a block for both, if they are drawn as one line; None for a failure and for any other tool."""
    if result.failed or result.name or not is_read(call):
        return None
    return msgspec.structs.replace(result, of=call, remembered=call.remembered and result.remembered)


def join_results(shown: Sequence[Shown]) -> list[Shown]:
    """Return a stretch of history with the calls that only read joined with their results.

    A result right behind its call does not name the file again.
    """
    blocks = [each for each in shown if isinstance(each, TranscriptBlock)]
    calls = {each.call: each for each in blocks if is_read(each)}
    results = (each for each in blocks if each.speaker is Speaker.TOOL_RESULT and each.call in calls)
    joined = {each.call: both for each in results if (both := join_result(calls[each.call], each))}
    kept = list[Shown]()
    for each in shown:
        if not isinstance(each, TranscriptBlock) or each.call not in joined:
            match kept[-1:], each:
                case [TranscriptBlock() as call], TranscriptBlock(call=id) if id and id == call.call:
                    kept.append(name_once(call, each))
                case _:
                    kept.append(each)
        elif each.speaker is Speaker.TOOL_RESULT:
            kept.append(joined[each.call])
    return kept


def name_once(call: TranscriptBlock, result: TranscriptBlock) -> TranscriptBlock:
    """Return the result of a call that stands above it without the file that both name: "Edited in 1 place"."""
    words = CALL_WORDS.get(call.name)
    if words is None or not words.hidden or result.failed or result.name:
        return result
    name = msgspec.json.decode(call.text, type=dict[str, object]).get(words.subject)
    verb, named, rest = result.text.partition(f" {name}")
    return msgspec.structs.replace(result, text=verb + rest) if named and verb.isalpha() else result


def count_found(result: TranscriptBlock) -> str:
    """Return how much a joined call found: "120 lines", "lines 1 to 50 of 120", "no line matches"."""
    assert result.of
    words = CALL_WORDS[result.of.name]
    if match := re.match(_RANGE, result.text):
        first, last, of = match.groups()
        is_whole = first == "1" and last == of
        return f"{of} {words.one if of == '1' else words.many}" if is_whole else f"lines {first} to {last} of {of}"
    if match := re.match(_PICTURE, result.text):
        return match[1]
    if result.whole:
        return f"{result.whole:,} bytes"
    lines = result.text.rstrip("\n").split("\n")
    found = [line for line in lines if not (line.startswith("[") and line.endswith("]"))]
    if not found or lines == [""]:
        return lines[0].strip("[]") or "nothing"
    return f"{len(found):,} {words.one if len(found) == 1 else words.many}"
