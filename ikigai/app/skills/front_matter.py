"""Read the front matter of a SKILL.md, a YAML mapping between two lines of three hyphens. All its scalars are text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

_HEAD = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_PLAIN_VALUE = re.compile(r"^([A-Za-z][\w-]*):[ \t]+([^\s'\"|>#].*?)[ \t]*$", re.MULTILINE)
_OLD_LINE_ENDS = re.compile("[\x85\u2028\u2029]")
"""Characters that end a line in YAML 1.1, as the parser reads it, and no more in 1.2."""
MAX_YAML_LEVELS = 100
"""Mappings and lists within one another."""


class FrontMatter(NamedTuple):
    """The fields of a SKILL.md, and the text below them."""

    fields: dict[str, Any]
    body: str


def read_leniently(text: str) -> FrontMatter:
    """Return the front matter as most programs take it: a value may hold a colon without quotes.

    Raise ValueError, with a clause, if it cannot be read.
    """
    head = _HEAD.match(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    if head is None:
        raise ValueError("it does not begin with front matter between two lines ---")
    body = head.string[head.end() :].strip()
    try:
        return FrontMatter(_parse(head[1]), body)
    except ValueError:
        quoted = _PLAIN_VALUE.sub(lambda found: f"{found[1]}: {json.dumps(found[2])}", head[1])
        return FrontMatter(_parse(quoted), body)


def read_strictly(text: str) -> dict[str, Any]:
    """Return the fields as the reference validator reads them. Raise ValueError, with a clause.

    Its front matter ends at the next three hyphens, wherever they are. Its YAML has no lists and mappings in brackets,
    anchors, tags and doubled keys.
    """
    if not text.startswith("---"):
        raise ValueError("it does not begin with front matter (---)")
    _, head, *rest = text.split("---", 2)
    if not rest:
        raise ValueError("its front matter is not closed with ---")
    return _parse(_OLD_LINE_ENDS.sub(" ", head), strict=True)


def _parse(text: str, strict: bool = False) -> dict[str, Any]:
    import yaml  # not before there is a skill

    # The loader in C takes a tenth of the time, and takes tabs where the other one does not.
    loader = yaml.BaseLoader if strict else getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        events = iter(yaml.parse(text, Loader=loader))
        value = _document(events, strict)
        if strict and isinstance(next(events, None), yaml.DocumentStartEvent):
            raise ValueError("its front matter has several YAML documents")
    except yaml.YAMLError as error:
        problem, mark = getattr(error, "problem", None) or str(error), getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark else ""
        raise ValueError(f"its front matter is not valid YAML: {problem.partition(chr(10))[0]}{where}") from None
    if not isinstance(value, dict):
        raise ValueError("its front matter is not a YAML mapping")
    return value


def _document(events: Iterator[Any], strict: bool) -> object:
    """Return the value of the first document, up to its end; None for an empty text."""
    import yaml

    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            value = _value(next(events), events, strict, 1)
            next(events)
            return value
    return None


def _value(event: Any, events: Iterator[Any], strict: bool, level: int) -> Any:
    """Return the value that begins with this event. Raise ValueError, with a clause."""
    import yaml

    if isinstance(event, yaml.AliasEvent) or level > MAX_YAML_LEVELS:
        raise ValueError("its front matter has a YAML alias" if level <= MAX_YAML_LEVELS else "it is nested too deep")
    is_flow = getattr(event, "flow_style", False)
    if strict and (event.anchor or event.tag or is_flow):
        what = "an anchor" if event.anchor else "a tag" if event.tag else "a value in brackets"
        raise ValueError(f"its front matter has {what} without quotes (line {event.start_mark.line + 1})")
    if isinstance(event, yaml.ScalarEvent):
        return event.value
    if isinstance(event, yaml.SequenceStartEvent):
        return [_value(each, events, strict, level + 1) for each in _until(yaml.SequenceEndEvent, events)]
    found, columns = dict[str, Any](), set[int]()
    for each in _until(yaml.MappingEndEvent, events):
        key, value = _value(each, events, strict, level + 1), next(events)
        columns |= {value.start_mark.column} if isinstance(value, yaml.MappingStartEvent) else set()
        if strict and (not isinstance(key, str) or key == "<<" or key in found or len(columns) > 1):
            what = "twice" if str(key) in found else "in a form or an indentation that it may not have"
            raise ValueError(f"its front matter has {str(key)[:40]!r} {what} (line {each.start_mark.line + 1})")
        found[str(key)] = _value(value, events, strict, level + 1)
    return found


def _until(end: type, events: Iterator[Any]) -> Iterator[Any]:
    """Yield the events before one of type `end`, each of which begins a value that is read before the next."""
    for event in events:
        if isinstance(event, end):
            return
        yield event
