"""Check and resolve what a configuration adds to requests: headers of a provider, body fields of a model.

A text "env:NAME" stands for the value of that variable, so that no key has to stand in a file.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from ikigai.core.errors import ConfigError
from ikigai.core.secrets.redaction import looks_like_key

ENV = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)")
SECRET_NAME = re.compile(r"auth|key|token$|secret|cookie|password", re.IGNORECASE)
"""Matches the name of a header whose value is a secret."""
VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
OWN_HEADERS = ("host", "connection", "content-length", "content-type", "accept", "accept-encoding", "transfer-encoding")
"""Headers that the format and the HTTP client need as they are."""
OWN_FIELDS = ("model", "messages", "contents", "input", "stream", "tools")
"""Fields of a body that are ikigai's own."""


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise ValueError if a header cannot be sent, or holds a secret itself."""
    for name, value in headers.items():
        is_usable = HEADER_NAME.fullmatch(name) and HEADER_VALUE.fullmatch(value) and name.lower() not in OWN_HEADERS
        if not is_usable or not (ENV.fullmatch(value) or not (SECRET_NAME.search(name) or looks_like_key(value))):
            raise ValueError(name)


def check_environment(environment: Mapping[str, str]) -> None:
    """Raise ValueError if a variable cannot be set, or its value is a secret itself."""
    for name, value in environment.items():
        if not VARIABLE_NAME.fullmatch(name) or "\0" in value:
            raise ValueError(name)
        if not ENV.fullmatch(value) and (SECRET_NAME.search(name) or looks_like_key(value)):
            raise ValueError(name)


def check_arguments(arguments: Iterable[str]) -> None:
    """Raise ValueError if one is a secret: every user of the machine can read the arguments of a program."""
    for argument in arguments:
        if looks_like_key(argument):
            raise ValueError


def check_address(url: str) -> None:
    """Raise ValueError if the port is none, or the address holds a secret itself."""
    if looks_like_key(url) or (urlsplit(url).port or 1) < 1:
        raise ValueError(url)


def check_body(body: Mapping[str, Any]) -> None:
    """Raise ValueError if a field is ikigai's own, is not JSON, or holds a secret itself."""
    import msgspec

    try:
        msgspec.json.encode(body)
    except TypeError as error:
        raise ValueError from error
    if not body.keys().isdisjoint(OWN_FIELDS) or any(map(looks_like_key, _texts(body))):
        raise ValueError


CHECKS: dict[tuple[str, ...], Callable[[Any], None]] = {
    ("providers", "*", "headers"): check_headers,
    ("models", "*", "body"): check_body,
    ("mcp_servers", "*", "headers"): check_headers,
    ("mcp_servers", "*", "env"): check_environment,
    ("mcp_servers", "*", "args"): check_arguments,
    ("mcp_servers", "*", "url"): check_address,
}
"""Further checks of values, by place."""


def variables(value: object) -> Iterator[str]:
    """Yield the names of the variables that a table takes texts from."""
    for text in _texts(value):
        if found := ENV.fullmatch(text):
            yield found[1]


def resolve_environment(owner: str, variables: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with the values of others. Raise ConfigError if one of these is not set."""
    resolved = dict[str, str]()
    for name, value in variables.items():
        if (found := ENV.fullmatch(value)) and found[1] not in environ:
            raise ConfigError(
                f"The variable {name} of {owner} is taken from {found[1]}, and that is not set.", f"Set {found[1]}."
            )
        resolved[name] = environ[found[1]] if found else value
    return resolved


def resolve_headers(provider: str, headers: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with the values of variables. Raise ConfigError if one is not set."""
    resolved: dict[str, str] = {}
    for name, value in headers.items():
        if (found := ENV.fullmatch(value)) and not environ.get(found[1], "").strip():
            raise ConfigError(
                f"The header {name} of {provider} is taken from {found[1]}, and that is not set.", f"Set {found[1]}."
            )
        resolved[name] = environ[found[1]].strip() if found else value
        if not HEADER_VALUE.fullmatch(resolved[name]):
            raise ConfigError(
                f"The header {name} of {provider} holds a line break or a character that no header has.",
                f"Correct {found[1] if found else 'the configuration'}.",
            )
    return resolved


def resolve_body(body: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields with the values of variables; "" for one that is not set."""
    return cast("dict[str, Any]", _resolved(body, environ))


def _resolved(value: object, environ: Mapping[str, str]) -> object:
    match value:
        case str() if found := ENV.fullmatch(value):
            return environ.get(found[1], "").strip()
        case dict():
            return {name: _resolved(item, environ) for name, item in cast("dict[str, object]", value).items()}
        case list():
            return [_resolved(item, environ) for item in cast("list[object]", value)]
        case _:
            return value


def _texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for item in cast("dict[str, object]", value).values():
                yield from _texts(item)
        case list():
            for item in cast("list[object]", value):
                yield from _texts(item)
        case _:
            return
