"""Messages between ikigai and the process that speaks to MCP servers: one JSON object a line.

order     from ikigai: start and stop servers, call tools, read resources, get prompts, answer questions
report    from the process: the state of a server, progress and results of calls, questions of servers
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

MAX_MESSAGE_BYTES = 32 << 20
"""Bytes of one message of a server; a longer one ends the connection."""


class McpMessage(msgspec.Struct, frozen=True, omit_defaults=True, tag=True):
    """One message."""


class ServerLaunch(msgspec.Struct, frozen=True, omit_defaults=True):
    """How to reach a server: a `command` to run in `directory`, or a `url`. Times are in seconds.

    `token_file` keeps the tokens of OAuth, under the name of the server. The fields after it are also for OAuth:
    `client_key` is the file with a private key, `issuer` the only authorization server that gets client credentials.
    With an issuer the login needs no user.
    """

    name: str
    command: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    directory: str = ""
    url: str = ""
    headers: dict[str, str] = {}
    startup_seconds: float = 30
    call_seconds: float = 600
    token_file: str = ""
    client_id: str = ""
    client_secret: str = ""
    scopes: str = ""
    client_key: str = ""
    issuer: str = ""


class StartServer(McpMessage, frozen=True):
    """Connect to a server and stay connected. With `login` the user can be asked to log in."""

    launch: ServerLaunch
    login: bool = False


class StopServer(McpMessage, frozen=True):
    """Disconnect from a server, and end its processes."""

    server: str


class CallTool(McpMessage, frozen=True):
    """Call a tool. `arguments` is the JSON text of an object."""

    id: str
    server: str
    tool: str
    arguments: str = "{}"


class ReadResource(McpMessage, frozen=True):
    """Read a resource of a server."""

    id: str
    server: str
    uri: str


class GetPrompt(McpMessage, frozen=True):
    """Get the text of a prompt of a server."""

    id: str
    server: str
    prompt: str
    arguments: dict[str, str] = {}


class CancelCall(McpMessage, frozen=True):
    """Stop a call, a reading or a prompt."""

    id: str


class AnswerQuestion(McpMessage, frozen=True):
    """Answer a question of a server: `action` is "accept", "decline" or "cancel"."""

    id: str
    action: str
    content: dict[str, Any] = {}


class CompleteLogin(McpMessage, frozen=True):
    """Pass on the address to which the browser was sent back."""

    server: str
    address: str


Order: TypeAlias = (
    StartServer | StopServer | CallTool | ReadResource | GetPrompt | CancelCall | AnswerQuestion | CompleteLogin
)


class ListedTool(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool as its server describes it; `schema` is JSON text."""

    name: str
    description: str = ""
    schema: str = "{}"


class ListedResource(msgspec.Struct, frozen=True, omit_defaults=True):
    """A resource of a server, or with `template` a pattern of addresses."""

    uri: str
    name: str = ""
    description: str = ""
    media_type: str = ""
    template: bool = False


class ListedPrompt(msgspec.Struct, frozen=True, omit_defaults=True):
    """A prompt of a server; `arguments` are pairs of name and True for a required one."""

    name: str
    description: str = ""
    arguments: tuple[tuple[str, bool], ...] = ()


class InvalidEntry(msgspec.Struct, frozen=True):
    """A tool, resource or prompt (`kind`) that does not follow the protocol, for the reason `why`."""

    kind: str
    name: str
    why: str


class ServerState(McpMessage, frozen=True, kw_only=True):
    """The state of a server: "starting", "ready", "failed" or "login", with the reason in `detail`.

    `protocol` is the version of the protocol, `pause` the seconds until the next try of a failed one. `invalid` are the
    entries of its lists that are left out.
    """

    server: str
    state: str
    detail: str = ""
    protocol: str = ""
    title: str = ""
    pause: float = 0
    tools: tuple[ListedTool, ...] = ()
    resources: tuple[ListedResource, ...] = ()
    prompts: tuple[ListedPrompt, ...] = ()
    invalid: tuple[InvalidEntry, ...] = ()
    changed: bool = False


class CallProgress(McpMessage, frozen=True):
    """Progress of a running call, in words."""

    id: str
    text: str


class ResultPicture(msgspec.Struct, frozen=True, omit_defaults=True):
    """A picture in a result: `data` is base64."""

    data: str
    media_type: str = ""


class CallResult(McpMessage, frozen=True):
    """The result of a call, a reading or a prompt. With `failed` the text is an error."""

    id: str
    text: str = ""
    pictures: tuple[ResultPicture, ...] = ()
    failed: bool = False


class ServerQuestion(McpMessage, frozen=True):
    """A question of a server to the user: about a form (`schema`, as JSON text) or to open `url`."""

    id: str
    server: str
    text: str
    schema: str = ""
    url: str = ""


class LoginPage(McpMessage, frozen=True):
    """The address at which the user logs in to a server."""

    server: str
    url: str


Report: TypeAlias = ServerState | CallProgress | CallResult | ServerQuestion | LoginPage

order_decoder = msgspec.json.Decoder(Order)
report_decoder = msgspec.json.Decoder(Report)


def encode(message: Order | Report) -> bytes:
    """Return the message as one line."""
    return msgspec.json.encode(message) + b"\n"


class LineSplitter:
    """Splits a stream into lines of at most `max_bytes` bytes; `feed` raises ValueError for a longer one."""

    def __init__(self, max_bytes: int = 2 * MAX_MESSAGE_BYTES) -> None:
        self._parts: list[bytes] = []
        self._size, self._max_bytes = 0, max_bytes

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that end in `data`, without their line breaks."""
        *ended, rest = data.split(b"\n")
        lines = list[bytes]()
        for part in ended:
            lines.append(b"".join((*self._parts, part)))
            self._parts.clear()
            self._size = 0
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
        if self._size > self._max_bytes or any(len(line) > self._max_bytes for line in lines):
            self._parts.clear()
            self._size = 0
            raise ValueError(f"a message is longer than {self._max_bytes >> 20} MiB")
        return lines
