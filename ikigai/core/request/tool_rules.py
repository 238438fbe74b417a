"""State which schemas of tools each vendor refuses: one of them makes every request fail, whatever the model calls.

vendor      refused                                              said by
anthropic   a parameter's name other than [a-zA-Z0-9_.-]{1,64}   "Property keys should match pattern"
            oneOf, allOf or anyOf at the top                     "input_schema does not support oneOf, allOf, or anyOf"
            what JSON Schema draft 2020-12 does not allow        "It must match JSON Schema draft 2020-12"
openai      oneOf, anyOf, allOf, enum, const or not at the top   "schema must have type 'object' and not have …"
            what JSON Schema does not allow                      "is not valid under any of the given schemas"
            a description of more than 1,024 characters          "function.description: string too long"
google      a parameter's name that does not begin with a        the reference of FunctionDeclaration.parameters
            letter or _, has more than 64 characters, or others
            than letters, digits, _, . and -
            a type that does not exist                            the reference of Schema.type
            no description                                       the reference of FunctionDeclaration.description

A tool with such a schema is left out. A description is cut. The tool's name replaces a missing one. The words of
Anthropic and OpenAI are from their answers with status 400 (anthropics/claude-code issues 24631, 5319 and 7365;
nspady/google-calendar-mcp issue 39; getsentry/sentry-mcp issue 106). Google's reference is
cloud.google.com/vertex-ai/generative-ai/docs. Names of tools are made so that all vendors take them
(`core.tools.mcp_tools.tool_name`).
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeAlias, cast

import msgspec
from msgspec import Meta

from ikigai.core.events.messages import ToolSpec
from ikigai.core.events.record import Record
from ikigai.core.text.sanitize import clean_line
from ikigai.core.tools.mcp_tools import MCP_SET, SEPARATOR


class ToolRule(Record, frozen=True):
    """The rule of a vendor: the names of parameters that it takes, as a pattern and in words, the keywords that it
    refuses at the top of a schema, and the characters of the longest description that it takes (0: of any).
    """

    vendor: str
    names: str = ""
    names_in_words: str = ""
    not_at_top: tuple[str, ...] = ()
    max_description: int = 0
    needs_description: bool = False


TOOL_RULES = {
    "anthropic": ToolRule(
        "Anthropic",
        r"[a-zA-Z0-9_.-]{1,64}",
        "1 to 64 ASCII letters, digits, _, . or -",
        ("oneOf", "allOf", "anyOf"),
    ),
    "openai": ToolRule("OpenAI", not_at_top=("oneOf", "anyOf", "allOf", "enum", "const", "not"), max_description=1024),
    "google": ToolRule(
        "Google",
        r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}",
        "1 to 64 ASCII letters, digits, _, . or - behind a letter or _",
        needs_description=True,
    ),
}
"""By the name that an encoder has for its rule (`core.request.model.Encoder.tool_rule`)."""

_Type: TypeAlias = Literal["array", "boolean", "integer", "null", "number", "object", "string"]
_Count: TypeAlias = Annotated[float, Meta(ge=0)]
_Any: TypeAlias = "_Schema | bool"
_Several: TypeAlias = Annotated[list[_Any], Meta(min_length=1)]


class _Schema(
    Record, frozen=True, rename={"ref": "$ref", "defs": "$defs", "not_": "not", "if_": "if", "else_": "else"}
):
    """The keywords of JSON Schema draft 2020-12 and what each may hold. Further ones may hold anything."""

    ref: str = ""
    defs: dict[str, _Any] = {}  # noqa: RUF012  (msgspec gives every record its own)
    definitions: dict[str, _Any] = {}  # noqa: RUF012
    type: _Type | list[_Type] = "object"
    title: str = ""
    description: str = ""
    format: str = ""
    pattern: str = ""
    enum: list[Any] = []  # noqa: RUF012
    required: list[str] = []  # noqa: RUF012
    properties: dict[str, _Any] = {}  # noqa: RUF012
    patternProperties: dict[str, _Any] = {}  # noqa: RUF012
    dependentSchemas: dict[str, _Any] = {}  # noqa: RUF012
    dependentRequired: dict[str, list[str]] = {}  # noqa: RUF012
    additionalProperties: _Any = True
    unevaluatedProperties: _Any = True
    propertyNames: _Any = True
    items: _Any = True
    unevaluatedItems: _Any = True
    contains: _Any = True
    prefixItems: _Several = []  # noqa: RUF012
    allOf: _Several = []  # noqa: RUF012
    anyOf: _Several = []  # noqa: RUF012
    oneOf: _Several = []  # noqa: RUF012
    not_: _Any = True
    if_: _Any = True
    then: _Any = True
    else_: _Any = True
    minimum: float = 0
    maximum: float = 0
    exclusiveMinimum: float = 0
    exclusiveMaximum: float = 0
    multipleOf: Annotated[float, Meta(gt=0)] = 1
    minLength: _Count = 0
    maxLength: _Count = 0
    minItems: _Count = 0
    maxItems: _Count = 0
    minProperties: _Count = 0
    maxProperties: _Count = 0
    uniqueItems: bool = False


@lru_cache(maxsize=4096)
def refusal(rule: str, schema: str) -> str:
    """Return why a vendor refuses a tool with this schema, as the second half of a sentence; "" if it takes it.

    `rule` is a name of TOOL_RULES, any other one has no rule. `schema` is JSON text of an object.
    """
    if (said := TOOL_RULES.get(rule)) is None:
        return ""
    try:
        decoded = msgspec.json.decode(schema, type=dict[str, Any])
        return _refusal(said, decoded)
    except (msgspec.ValidationError, RecursionError) as error:
        return f"its schema is not valid ({clean_line(str(error))})"


def _refusal(said: ToolRule, decoded: dict[str, Any]) -> str:
    if at_top := next((key for key in said.not_at_top if key in decoded), ""):
        return f"its schema has {at_top} at the top"
    msgspec.convert(decoded, _Schema)
    names = cast("dict[str, Any]", decoded.get("properties", {}))
    if said.names and (wrong := next((name for name in names if not re.fullmatch(said.names, name)), None)) is not None:
        return f"the name of its parameter {clean_line(wrong)[:80]!r} is not {said.names_in_words}"
    if lost := next((ref for ref in _references(decoded) if not _is_found(decoded, ref)), ""):
        return f"its schema refers to {clean_line(lost)[:80]!r}, which it does not have"
    return ""


def _references(schema: Any) -> Iterator[str]:
    """Yield the references of a schema to its own parts."""
    if isinstance(schema, list):
        for each in cast("list[Any]", schema):
            yield from _references(each)
    elif isinstance(schema, dict):
        for key, value in cast("dict[str, Any]", schema).items():
            if key == "$ref" and isinstance(value, str) and value.startswith("#/"):
                yield value
            else:
                yield from _references(value)


def _is_found(schema: Any, reference: str) -> bool:
    for key in reference.removeprefix("#/").split("/"):
        name = key.replace("~1", "/").replace("~0", "~")
        if isinstance(schema, list) and name.isdecimal() and int(name) < len(cast("list[Any]", schema)):
            schema = cast("list[Any]", schema)[int(name)]
        elif isinstance(schema, dict) and name in schema:
            schema = cast("dict[str, Any]", schema)[name]
        else:
            return False
    return True


@lru_cache(maxsize=4096)
def with_fitting_description(rule: str, tool: ToolSpec) -> ToolSpec:
    """Return the tool with a description that the vendor takes. `rule` is as in `refusal`."""
    if (said := TOOL_RULES.get(rule)) is None:
        return tool
    text = tool.description or (tool.name if said.needs_description else "")
    if 0 < said.max_description < len(text):
        text = f"{text[: said.max_description - 1].rstrip()}…"
    return tool if text == tool.description else msgspec.structs.replace(tool, description=text)


def refused_tools(tools: Iterable[ToolSpec], rule: str) -> Iterator[str]:
    """Yield a sentence about each tool that a vendor refuses."""
    for tool in tools:
        if why := refusal(rule, tool.schema):
            yield f"The {describe_tool(tool)} is not offered to models of {TOOL_RULES[rule].vendor}: {why}."


def describe_tool(tool: ToolSpec) -> str:
    """Return the words for a tool, which name its MCP server, if it has one."""
    server = mcp_server(tool)
    return f"tool {tool.name.partition(SEPARATOR)[2]} of the MCP server {server}" if server else f"tool {tool.name}"


def mcp_server(tool: ToolSpec) -> str:
    """Return the name of the MCP server that has the tool; "" for other tools."""
    server, separator, _ = tool.name.partition(SEPARATOR)
    return server if tool.set == MCP_SET and separator else ""
