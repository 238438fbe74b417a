"""Ask the user what an MCP server wants to know: one question for each field of its form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ikigai.core.ports import Ask
from ikigai.core.text.sanitize import clean_line
from ikigai.core.views.questions import Choice, Question
from ikigai.tools.mcp.host_messages import AnswerQuestion, ServerQuestion

MAX_FIELDS = 20
MAX_CHOICES = 20
CHOICE_KEYS = "123456789abcdefghijk"
DECLINE = Choice("x", "decline")
CANCEL = Choice("q", "cancel")


async def ask_user(ask: Ask, question: ServerQuestion) -> AnswerQuestion:
    """Return the user's answer to a server; "cancel" where nobody can be asked."""
    if question.url:
        return await _ask_page(ask, question)
    content = dict[str, Any]()
    for name, field in _fields(question.schema)[:MAX_FIELDS]:
        while True:
            answer = await ask(_field_question(question, name, field))
            if answer.not_asked or answer.key == CANCEL.key:
                return AnswerQuestion(question.id, "cancel")
            if answer.key == DECLINE.key:
                return AnswerQuestion(question.id, "decline")
            if answer.key == "s":
                if "default" in field:
                    content[name] = field["default"]
                break
            try:
                content[name] = _value(field, answer.key, answer.words)
                break
            except ValueError:
                continue
    return AnswerQuestion(question.id, "accept", content)


async def _ask_page(ask: Ask, question: ServerQuestion) -> AnswerQuestion:
    lines = (*_head(question), clean_line(question.url), "Open this page yourself if you trust it, then answer.")
    choices = (Choice("y", "done"), DECLINE, CANCEL)
    answer = await ask(Question(_title(question), lines, choices, default=CANCEL.key, subject=(len(lines) - 2,)))
    if answer.not_asked or answer.key == CANCEL.key:
        return AnswerQuestion(question.id, "cancel")
    return AnswerQuestion(question.id, "accept" if answer.key == "y" else "decline")


def _fields(schema: str) -> list[tuple[str, Mapping[str, Any]]]:
    try:
        decoded = msgspec.json.decode(schema or "{}")
    except msgspec.DecodeError:
        return []
    required = set(decoded.get("required") or ())
    properties = decoded.get("properties") or {}
    return [
        (name, {**field, "required": name in required}) for name, field in properties.items() if isinstance(field, dict)
    ]


def _title(question: ServerQuestion) -> str:
    return f"The MCP server {question.server} asks"


def _head(question: ServerQuestion) -> tuple[str, ...]:
    return tuple(clean_line(line) for line in question.text.splitlines() if line.strip())


def _field_question(question: ServerQuestion, name: str, field: Mapping[str, Any]) -> Question:
    label = clean_line(str(field.get("title") or name))
    about = clean_line(str(field.get("description") or ""))
    lines = (*_head(question), f"{label}: {about}" if about else label)
    default = field.get("default")
    words = ", ".join(map(str, default)) if isinstance(default, list) else str(default)
    known = f"skip ({clean_line(words)[:40]})" if "default" in field else "skip"
    skip = () if field["required"] and "default" not in field else (Choice("s", known),)
    choices = (*_answers(field, label), *skip, DECLINE, CANCEL)
    return Question(_title(question), lines, choices, default=CANCEL.key, subject=(len(lines) - 1,))


def _options(field: Mapping[str, Any]) -> list[tuple[Any, str]]:
    """Return the values that the field can have, with their names; none for a free one."""
    of = field.get("items", {}) if field.get("type") == "array" else field
    if values := of.get("enum"):
        names = of.get("enumNames") or values
        return [(value, str(name)) for value, name in zip(values, names, strict=False)][:MAX_CHOICES]
    each = of.get("oneOf") or of.get("anyOf") or ()
    return [(one.get("const"), str(one.get("title") or one.get("const"))) for one in each][:MAX_CHOICES]


def _answers(field: Mapping[str, Any], label: str) -> tuple[Choice, ...]:
    if field.get("type") == "boolean":
        return Choice("y", "yes"), Choice("n", "no")
    if field.get("type") == "array":
        options = zip(CHOICE_KEYS, _options(field), strict=False)
        listed = ", ".join(f"{key} {clean_line(name)}" for key, (_, name) in options)
        return (Choice("t", "type", f"Which? {listed}"),)
    if options := _options(field):
        return tuple(Choice(key, clean_line(name)) for key, (_, name) in zip(CHOICE_KEYS, options, strict=False))
    return (Choice("t", "type", f"{label}?"),)


def _value(field: Mapping[str, Any], key: str, words: str) -> Any:
    """Return the value that the user chose or typed. Raise ValueError if it does not fit the field."""
    kind, options = field.get("type"), _options(field)
    if kind == "boolean":
        return key == "y"
    if kind == "array":
        return [options[CHOICE_KEYS.index(each)][0] for each in words.replace(",", " ").split()]
    if options:
        return options[CHOICE_KEYS.index(key)][0]
    if kind == "integer":
        return int(words)
    if kind == "number":
        return float(words)
    if not words and field["required"]:
        raise ValueError
    return words
