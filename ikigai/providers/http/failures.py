"""Turn HTTP status, error body and exception into a StreamFailed, for every vendor alike."""

import re
import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from ikigai.core.errors import IkigaiError
from ikigai.core.events.messages import ToolSpec
from ikigai.core.events.record import Record
from ikigai.core.request.reply import TRANSIENT_FAILURES, FailureKind, StreamFailed
from ikigai.core.tools.mcp_tools import MCP_SET
from ikigai.core.tools.tool_selection import EXTERNAL_SET
from ikigai.providers.http import network
from ikigai.providers.http.answer_limits import UnusableAnswer
from ikigai.providers.http.error_bodies import parse_error_body, retry_after, retry_delay

CONTEXT_EXCEEDED = (
    r"(?is)maximum context (length|window)|maximum [\d,._]+ tokens|context length of only"
    r"|context_length_exceeded|max_prompt_tokens_exceeded"
    r"|exceed\w* .{0,40}context|context .{0,40}exceed"
    r"|(input|prompt|token)s?\b.{0,40} exceed|tokens.{0,40} more than max tokens"
    r"|(prompt|input|context)\b.{0,20} too (long|large)|too many (input )?tokens"
    r"|reduce the length of|range of input length|n_keep .{0,20}n_ctx"
)
"""This pattern and those below are compiled after a failure, not at every start."""
TOO_LARGE = r"(?i)request (body )?too large"
PER_TIME = r"(?i)per (second|min|hour|day)|rate.?limit|wait before"

TOOLS_REFUSED = (
    r"(?i)(not|n't) support (the )?(use of )?(tool|function)|\b(tool|function)s?\b.{0,20} not supported"
    r"|support tool use|function calling is not enabled|unsupported param(eter)?: tools|tools param requires"
    r"|tool choice requires --enable-auto-tool"
)
"""Matches a message of Ollama, OpenRouter, Google, llama.cpp or vLLM about a model that takes no tools, or a server
that was started without them.
"""

SEARCH_REFUSED = (
    r"(?i)web.search.(\d|preview|call)|hosted tool|tools cannot be used with reasoning|max_tool_calls"
    r"|web.search\b.{0,20}\b(not|un\w+|disabled|blocked)\b|(not|n't) (support|allow)\w*\b.{0,20}\bweb.search"
    r"|google.?search|built-in tools|server_side_tool|search tools|tool use with function calling|context circulation"
)
"""Matches a message of Anthropic, OpenAI or Google about their own web search: the account or the model has none."""

TOOL_PLACE = r"function_?declarations\[(\d+)\]|\btools\.(\d+)\b|\btools\[(\d+)\](?!\.function_?declarations)"
"""Matches the place of a refused tool in the request: of Google, Anthropic and OpenAI."""
TOOL_NAME = r"(?i)function[ _]?(?:name)? ?['\"`]([\w-]+)['\"`]|['\"`]([\w-]+)['\"`] function_?declaration"
"""Matches the name of a refused tool: of OpenAI, and of Google."""

BAD_KEY = r"(?i)(incorrect|invalid) api key|api key (not valid|expired|not found)"
"""Matches a message with status 400, of Google or xAI, for what other servers report with 401."""

QUOTA_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error"})
NO_CREDIT = (
    r"(?i)credit balance is too low|reached your specified .{0,20}usage limit"
    r"|(used all available|run out of|have any) credits|reaching the monthly spending limit"
)
"""Matches messages for what others report with 402, no credit or a limit that its owner set: of Anthropic with status
400 or 429, of xAI with 403 or 429, of Fireworks with 412.
"""
PLAN_MESSAGE = r"(?i)check your plan and billing"
"""Matches a message for used-up credit, which Google also sends when requests come too fast: only then it
names a wait.
"""
NONE_AT_ALL = r"limit: 0(?!\.?\d)"

FAILURE_KINDS = {
    "authentication_error": FailureKind.AUTH,
    "invalid_api_key": FailureKind.AUTH,
    "permission_error": FailureKind.AUTH,
    "rate_limit_error": FailureKind.RATE,
    "rate_limit_exceeded": FailureKind.RATE,
    "not_found_error": FailureKind.NOT_FOUND,
    "model_not_found": FailureKind.NOT_FOUND,
    "throttlingException": FailureKind.RATE,
    "validationException": FailureKind.REFUSED,
    "invalid_request_error": FailureKind.REFUSED,
    "BadRequestError": FailureKind.REFUSED,
}
"""Code of an error → kind, if no HTTP status tells. Any other error in a stream may pass. The first name counts: an
invalid_request_error of OpenAI often has a more specific code.
"""

FAILURE_MESSAGES = {
    FailureKind.AUTH: (
        "{name} did not accept the key",
        "Check the key, or store another with `ikigai login {name}` or /login {name}.",
    ),
    FailureKind.NOT_FOUND: (
        "{name} has no model {model} at {address}",
        "Check the model's name and the address, which often ends in /v1.",
    ),
    FailureKind.REFUSED: ("{name} refused the request", "The same request will fail again: change it or the model."),
    FailureKind.NO_TOOLS: (
        "{name} refused the request",
        "Start ikigai with --no-tools, or choose another model.",
    ),
    FailureKind.QUOTA: ("{name}: the credit is used up", "Add credit there or choose another model."),
    FailureKind.CONTEXT: (
        "The conversation is too long for {model}",
        "Send less, empty the context with /clear, or choose a model with a larger one.",
    ),
    FailureKind.RATE: ("{name}: too many requests in a short time", "Wait, then send the message again."),
    FailureKind.OVERLOADED: ("{name} could not answer", "Send the message again later."),
}


REFUSAL_REMEDIES = (
    (
        SEARCH_REFUSED,
        "Switch the vendor's web search off with /tools off vendor_search, or choose another model.",
    ),
    (
        r"max_(completion_|output_)?tokens",
        'Set max_output under [models."{name}/{model}"] in the configuration to what the server allows.',
    ),
    (
        r"on-demand throughput",
        "Name an inference profile instead, such as {name}/us.{model}: `ikigai models {name} --refresh` lists them.",
    ),
    (r"reasoning_effort|reasoning\.effort|output_config", "Type /think default: then no level is sent."),
)
"""Pattern of a refused request's message → what the user can do; the first counts."""


class ProviderRequestFailed(IkigaiError):
    """Failure of a request for something other than a reply: a StreamFailed as an error, with its `kind`."""

    def __init__(self, failure: StreamFailed) -> None:
        super().__init__(failure.text, failure.remedy)
        self.kind = failure.kind
        if failure.kind in TRANSIENT_FAILURES:
            self.exit_code = 75


class RequestTarget(Record, frozen=True):
    """The receiver of a request, as the user may read it: the provider's name, the model, the address without
    secrets. `sign_in` is the command that renews the credentials of a cloud, "" where a key is used. `key_variable` is
    the environment variable that the key came from, "" for none.
    """

    name: str
    model: str
    address: str
    sign_in: str = ""
    key_variable: str = ""


def failure_of_response(
    target: RequestTarget, status: int, body: object, headers: Mapping[str, str], now: float
) -> StreamFailed:
    """Return the failure of an HTTP answer that is no success; `body` is decoded JSON or text, `now` seconds since the
    epoch.
    """
    message, codes = parse_error_body(body)
    wait = retry_after(headers, now) or retry_delay(body)
    kind = _by_status(status, message, codes, wait)
    id = headers.get("x-request-id") or headers.get("request-id") or ""
    if 300 <= status < 400:
        text = f"The server at {target.address} redirects to another address ({status})."
        return StreamFailed(
            kind, text, f"Redirects are not followed: correct the base_url of {target.name}.", request_id=id
        )
    return _build_failure(target, kind, f" ({status})", message, wait, id)


def failure_in_stream(target: RequestTarget, body: object, request_id: str = "") -> StreamFailed:
    """Return the failure of an error inside a stream, after a status of 200."""
    message, codes = parse_error_body(body)
    wait = retry_delay(body)
    status = next((int(code) for code in codes if code.isdecimal() and 400 <= int(code) < 600), 0)
    if status:
        kind = _by_status(status, message, codes, wait)
    elif codes & QUOTA_CODES or re.search(NO_CREDIT, message):
        kind = FailureKind.QUOTA
    elif any(map(is_context_exceeded, (message, *codes))):
        kind = FailureKind.CONTEXT
    else:
        kind = next((kind for name, kind in FAILURE_KINDS.items() if name in codes), FailureKind.OVERLOADED)
    return _build_failure(target, kind, "", message, wait, request_id)


def failure_of_exception(
    target: RequestTarget, error: BaseException, begun: bool, request_id: str = ""
) -> StreamFailed:
    """Return the failure of an exception of HTTP client, decoder or system; `begun` says that the answer had begun."""
    chain = list(_chain(error))
    if isinstance(error, UnicodeEncodeError):
        return StreamFailed(
            FailureKind.REFUSED, "The request contains text that is not Unicode.", "Remove it and send it again."
        )
    if isinstance(error, ImportError | ValueError) and not begun:
        return StreamFailed(
            FailureKind.UNAVAILABLE,
            f"{target.name} cannot be used: {error}.",
            "Fix the cause named in the message, or reinstall ikigai.",
        )
    if begun:
        what = "sent data that is not a reply" if isinstance(error, ValueError | RecursionError) else "stopped"
        text = f"{target.name} {what} in the middle of the reply."
        return StreamFailed(FailureKind.CUT, text, "Send the message again.", request_id=request_id)
    if failure := _tls_failure(target, chain):
        return failure
    if any(isinstance(e, socket.gaierror) for e in chain):
        why = "unknown host name"
    elif any(isinstance(e, ConnectionRefusedError) for e in chain):
        why = "connection refused"
    elif any(isinstance(e, TimeoutError) for e in chain):
        why = "connection timed out"
    else:
        why = " ".join(str(chain[-1]).split())[:120].rstrip(".") or type(error).__name__
    proxy = network.proxy_for(target.address)
    way, remedy = (f" through the proxy {proxy}", ", the proxy") if proxy else ("", "")
    text = f"{target.name} cannot be reached at {target.address}{way}: {why}."
    return StreamFailed(FailureKind.UNREACHABLE, text, f"Check the network{remedy} and the address.")


def _tls_failure(target: RequestTarget, chain: list[BaseException]) -> StreamFailed | None:
    """Return the failure of a missing TLS or bad certificates, which does not pass; None for other errors."""
    may_be_file = any(isinstance(e, OSError) and not isinstance(e, ConnectionError | TimeoutError) for e in chain)
    path, why = network.unreadable_certificates() if may_be_file else ("", "")
    if path:
        text = f"The certificates in {path} cannot be read: {why}."
        return StreamFailed(
            FailureKind.UNAVAILABLE, text, f"Correct the variable {network.CERTIFICATES_VARIABLE}, or unset it."
        )
    # The other SSL errors are a broken connection, which may pass; these two are certificates and plain-text ports.
    tls_error = next((e for e in chain if type(e) in (ssl.SSLError, ssl.SSLCertVerificationError)), None)
    if tls_error is None:
        return None
    reason = getattr(tls_error, "verify_message", "") or getattr(tls_error, "reason", "") or "TLS failed"
    if reason in NO_TLS:
        text = f"The server at {target.address} does not use TLS."
        return StreamFailed(FailureKind.UNAVAILABLE, text, "If it uses plain http, write http:// in the address.")
    text = f"No secure connection to {target.address}: {reason}."
    return StreamFailed(FailureKind.UNAVAILABLE, text, "Check the address and its certificate.")


NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
"""OpenSSL's names, by its version, for an answer in plain text."""


def unusable_answer(error: BaseException) -> str:
    """Return what the server did, in the past tense, if its answer was not read to its end; "" for other errors."""
    return next((str(one) for one in _chain(error) if isinstance(one, UnusableAnswer)), "")


def failure_of_silence(target: RequestTarget, seconds: float, request_id: str = "") -> StreamFailed:
    """Return the failure of a stream that was silent for too long."""
    text = f"{target.name} sent nothing for {seconds:g} seconds."
    return StreamFailed(FailureKind.CUT, text, "Send the message again.", request_id=request_id)


def cut(target: RequestTarget, request_id: str) -> StreamFailed:
    """Return the failure of a stream that ended without its end marker."""
    text = f"The reply of {target.name} ended before it was complete."
    return StreamFailed(FailureKind.CUT, text, "Send the message again.", request_id=request_id)


def failure_without_stream(target: RequestTarget, body: object, request_id: str = "") -> StreamFailed:
    """Return the failure of a success that is not a stream of events: an error dressed as one, or a foreign page."""
    if isinstance(body, dict) and body.get("error"):
        return failure_in_stream(target, body, request_id)
    text = f"The server at {target.address} is not a model API: it sent a web page instead of a stream."
    return StreamFailed(
        FailureKind.NOT_FOUND, text, "Check the address, which often ends in /v1.", request_id=request_id
    )


def presentable_failure(failure: StreamFailed, secret: str) -> StreamFailed:
    """Return the failure with its text fit for display: on one line, shortened, without the key, should a server repeat
    it.
    """
    text = " ".join(failure.text.split())
    if len(secret) >= 8:
        text = text.replace(secret, "[key]")
    if len(text) > 400:
        text = text[:399] + "…"
    return msgspec.structs.replace(failure, text=text)


def name_tool(failure: StreamFailed, tools: Iterable[ToolSpec]) -> StreamFailed:
    """Return the failure of a request with these tools with the name of the one whose definition is refused.

    Vendors name it by its place in the request, or by the name that models call.
    """
    if failure.kind is not FailureKind.REFUSED:
        return failure
    sent = [tool for tool in tools if not tool.hosted]
    place, named = re.search(TOOL_PLACE, failure.text), re.search(TOOL_NAME, failure.text)
    number = int(next(filter(None, place.groups()))) if place else len(sent)
    name = sent[number].name if number < len(sent) else next(filter(None, named.groups())) if named else ""
    tool = next((each for each in sent if each.name == name), None)
    if tool is None or tool.set not in (MCP_SET, EXTERNAL_SET):
        return failure
    from ikigai.core.request.tool_rules import describe_tool, mcp_server

    server = mcp_server(tool)
    remedy = (
        f"Set enabled = false under [mcp_servers.{server}], or remove the server from .mcp.json; /tools off mcp leaves "
        "out the tools of all servers."
        if server
        else "Take the tool out of its folder; /tools off external leaves out all of your own."
    )
    text = f"{failure.text} This is the {describe_tool(tool)}."
    return msgspec.structs.replace(failure, text=text, remedy=remedy)


def is_context_exceeded(message: str) -> bool:
    """Return True if an error says, in any server's words, that the request is larger than the model takes."""
    if re.search(TOO_LARGE, message):
        return True  # also if it exceeds the tokens of a minute: waiting cannot help
    return bool(re.search(CONTEXT_EXCEEDED, message)) and not re.search(PER_TIME, message)


def _by_status(status: int, message: str, codes: frozenset[str], wait: float | None) -> FailureKind:
    if (
        status == 402
        or codes & QUOTA_CODES
        or re.search(NO_CREDIT, message)
        or (status == 429 and _is_exhausted(message, codes, wait))
    ):
        return FailureKind.QUOTA
    refuses_tools = status not in (401, 403, 429) and re.search(TOOLS_REFUSED, message)
    if refuses_tools and not re.search(SEARCH_REFUSED, message):
        return FailureKind.NO_TOOLS
    if status in (401, 403) or (status == 400 and re.search(BAD_KEY, message)):
        return FailureKind.AUTH
    if status in (404, 405, 410) or 300 <= status < 400 or "model_not_found" in codes:
        return FailureKind.NOT_FOUND
    if status == 413 or any(map(is_context_exceeded, (message, *codes))):
        return FailureKind.CONTEXT
    if status == 429:
        return FailureKind.RATE
    return FailureKind.OVERLOADED if status in (408, 409) or status >= 500 else FailureKind.REFUSED


def _is_exhausted(message: str, codes: frozenset[str], wait: float | None) -> bool:
    """Return True if waiting a minute cannot help: the daily quota is used up, is zero, or there is no credit."""
    if any("PerDay" in code for code in codes) or re.search(NONE_AT_ALL, message):
        return True
    return wait is None and bool(re.search(PLAN_MESSAGE, message))


def _build_failure(
    target: RequestTarget, kind: FailureKind, status: str, message: str, wait: float | None, request_id: str
) -> StreamFailed:
    fields = {"name": target.name, "model": target.model, "address": target.address}
    message_start, remedy = (template.format_map(fields) for template in FAILURE_MESSAGES[kind])
    message = message.strip().rstrip(".")
    if kind is FailureKind.AUTH and target.sign_in:
        message_start = f"{target.name} did not accept the credentials"
        remedy = f"Run: {target.sign_in}. Or ask for the right to use this model."
    elif kind is FailureKind.AUTH and target.key_variable:
        remedy = f"Check the key in {target.key_variable}, which goes before one of `ikigai login {target.name}`."
    if kind is FailureKind.REFUSED:
        known = (ways for pattern, ways in REFUSAL_REMEDIES if re.search(pattern, message, re.IGNORECASE))
        remedy = next(known, remedy).format_map(fields)
    return StreamFailed(kind, f"{message_start}{status}{': ' if message else ''}{message}.", remedy, wait, request_id)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and its causes."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for part in error.exceptions:
                yield from _chain(part)
        error = error.__cause__ or error.__context__
