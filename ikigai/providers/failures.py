"""What went wrong with a request, in words: HTTP status, error body and exception → Broke, for every vendor alike."""

import re
import socket
import ssl
from collections.abc import Iterator, Mapping

import msgspec

from ikigai.core.errors import IkigaiError
from ikigai.core.record import Record
from ikigai.core.request.reply import PASSING, Broke, Failure
from ikigai.providers import network
from ikigai.providers.error_bodies import retry_after, retry_delay, said

CONTEXT = (
    r"(?is)maximum context (length|window)|maximum [\d,._]+ tokens|context length of only"
    r"|context_length_exceeded|max_prompt_tokens_exceeded"
    r"|exceed\w* .{0,40}context|context .{0,40}exceed"
    r"|(input|prompt|token)s?\b.{0,40} exceed"
    r"|(prompt|input|context)\b.{0,20} too (long|large)|too many (input )?tokens"
    r"|reduce the length of|range of input length|n_keep .{0,20}n_ctx"
)
"""This pattern and those below are compiled when something has gone wrong, and not at every start."""
TOO_LARGE = r"(?i)request too large"
PER_TIME = r"(?i)per (second|min|hour|day)|rate.?limit"

BAD_KEY = r"(?i)api key (not valid|expired|not found)"
"""How a server says with status 400 what others say with 401."""

QUOTA = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error"})
NO_CREDIT = r"(?i)credit balance is too low|reached your specified .{0,20}usage limit"
"""How Anthropic says with status 400, or 429, what others say with 402: no credit, or a limit that its owner set."""
PLAN = r"(?i)check your plan and billing"
"""Said when the credit is used up, and by Google also when requests come too fast: a wait that it names tells which."""
NONE_AT_ALL = r"limit: 0(?!\.?\d)"

KINDS = {
    "authentication_error": Failure.AUTH,
    "invalid_api_key": Failure.AUTH,
    "permission_error": Failure.AUTH,
    "rate_limit_error": Failure.RATE,
    "rate_limit_exceeded": Failure.RATE,
    "not_found_error": Failure.NOT_FOUND,
    "model_not_found": Failure.NOT_FOUND,
    "invalid_request_error": Failure.REFUSED,
    "BadRequestError": Failure.REFUSED,
}
"""What an error calls itself → kind, where no HTTP status tells. Everything else that comes in a stream may pass. The
first name counts: what OpenAI calls an invalid_request_error often has a code that says more."""

WORDS = {
    Failure.AUTH: ("{name} did not accept the key", "Check the key for {name}."),
    Failure.NOT_FOUND: (
        "{name} knows no model {model} at {address}",
        "Check the model's name and the address, which often ends in /v1.",
    ),
    Failure.REFUSED: ("{name} refused the request", "The same request will fail again: change it or the model."),
    Failure.QUOTA: ("{name} says that the credit is used up", "Add credit there or choose another model."),
    Failure.CONTEXT: (
        "The conversation is too long for {model}",
        "Send less, clear the context, or choose a model with a larger one.",
    ),
    Failure.RATE: ("{name} says that requests come too fast", "Wait a while and send the message again."),
    Failure.OVERLOADED: ("{name} could not answer", "Send the message again in a while."),
}


class Untold(IkigaiError):
    """A request for something else than a reply failed: a Broke as an error, whose `kind` it has."""

    def __init__(self, broke: Broke) -> None:
        super().__init__(broke.text, broke.remedy)
        self.kind = broke.kind
        if broke.kind in PASSING:
            self.exit_code = 75


class Target(Record, frozen=True):
    """Whom a request went to, as the user may read it: the provider's name, the model, the address without secrets."""

    name: str
    model: str
    address: str


def answered(target: Target, status: int, body: object, headers: Mapping[str, str], now: float) -> Broke:
    """An HTTP answer that is no success; `body` as decoded JSON or text, `now` in seconds since the epoch."""
    message, codes = said(body)
    wait = retry_after(headers, now) or retry_delay(body)
    kind = _by_status(status, message, codes, wait)
    id = headers.get("x-request-id") or headers.get("request-id") or ""
    if 300 <= status < 400:
        text = f"What answers at {target.address} redirects to another address ({status})."
        return Broke(kind, text, f"Correct the base_url of {target.name}: redirects are not followed.", request_id=id)
    return _broke(target, kind, f" ({status})", message, wait, id)


def reported(target: Target, body: object, request_id: str = "") -> Broke:
    """An error that came inside a stream, behind a status of 200."""
    message, codes = said(body)
    wait = retry_delay(body)
    status = next((int(code) for code in codes if code.isdecimal() and 400 <= int(code) < 600), 0)
    if status:
        kind = _by_status(status, message, codes, wait)
    elif codes & QUOTA or re.search(NO_CREDIT, message):
        kind = Failure.QUOTA
    elif any(map(context_exceeded, (message, *codes))):
        kind = Failure.CONTEXT
    else:
        kind = next((kind for name, kind in KINDS.items() if name in codes), Failure.OVERLOADED)
    return _broke(target, kind, "", message, wait, request_id)


def thrown(target: Target, error: BaseException, begun: bool, request_id: str = "") -> Broke:
    """What an HTTP client, a decoder or the system raised; `begun` says that the answer had begun to come."""
    chain = list(_chain(error))
    if isinstance(error, UnicodeEncodeError):
        return Broke(Failure.REFUSED, "The request holds text that is not Unicode.", "Remove it and send it again.")
    if isinstance(error, ImportError | ValueError) and not begun:  # a package, a proxy's URL
        return Broke(
            Failure.UNAVAILABLE, f"{target.name} cannot be used: {error}.", "Install or correct what it names."
        )
    if begun:
        what = "sent something that is no reply" if isinstance(error, ValueError | RecursionError) else "broke off"
        text = f"{target.name} {what} in the middle of the reply."
        return Broke(Failure.CUT, text, "Send the message again.", request_id=request_id)
    if unsafe := _unsafe(target, chain):
        return unsafe
    if any(isinstance(e, socket.gaierror) for e in chain):
        why = "the name is not known"
    elif any(isinstance(e, ConnectionRefusedError) for e in chain):
        why = "nothing listens there"
    elif any(isinstance(e, TimeoutError) for e in chain):
        why = "no connection in time"
    else:
        why = " ".join(str(chain[-1]).split())[:120].rstrip(".") or type(error).__name__
    proxy = network.proxy(target.address)
    way, remedy = (f" through the proxy {proxy}", ", the proxy") if proxy else ("", "")
    text = f"{target.name} cannot be reached at {target.address}{way}: {why}."
    return Broke(Failure.UNREACHABLE, text, f"Check the network{remedy} and the address.")


def _unsafe(target: Target, chain: list[BaseException]) -> Broke | None:
    """What was raised for want of TLS or of certificates, which does not pass; None for everything else."""
    here = any(isinstance(e, OSError) and not isinstance(e, ConnectionError | TimeoutError) for e in chain)
    path, why = network.unreadable() if here else ("", "")
    if path:
        text = f"The certificates in {path} cannot be read: {why}."
        return Broke(Failure.UNAVAILABLE, text, f"Correct the variable {network.CERTIFICATES}, or unset it.")
    # The other SSL errors are a broken connection, which may pass; these two are certificates and plain-text ports.
    bad = next((e for e in chain if type(e) in (ssl.SSLError, ssl.SSLCertVerificationError)), None)
    if bad is None:
        return None
    reason = getattr(bad, "verify_message", "") or getattr(bad, "reason", "") or "TLS failed"
    if reason in NO_TLS:
        text = f"What answers at {target.address} does not speak TLS."
        return Broke(Failure.UNAVAILABLE, text, "If http:// is meant, write that in the address.")
    text = f"No safe connection to {target.address}: {reason}."
    return Broke(Failure.UNAVAILABLE, text, "Check that the address and its certificate are right.")


NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
"""What OpenSSL, by its version, calls an answer in plain text."""


def silent(target: Target, seconds: float, request_id: str = "") -> Broke:
    """Nothing came for too long."""
    text = f"{target.name} sent nothing for {seconds:g} seconds."
    return Broke(Failure.CUT, text, "Send the message again.", request_id=request_id)


def cut(target: Target, request_id: str) -> Broke:
    """A stream that ended without its end marker."""
    text = f"The reply of {target.name} ended before it was complete."
    return Broke(Failure.CUT, text, "Send the message again.", request_id=request_id)


def no_stream(target: Target, body: object, request_id: str = "") -> Broke:
    """A success that is no stream of events: an error dressed as one, or somebody else's page."""
    if isinstance(body, dict) and body.get("error"):
        return reported(target, body, request_id)
    text = f"What answers at {target.address} is no model: it sent a page instead of a stream."
    return Broke(Failure.NOT_FOUND, text, "Check the address, which often ends in /v1.", request_id=request_id)


def told(broke: Broke, secret: str) -> Broke:
    """The same, fit to be shown: on one line, of bearable length, without the key, should a server repeat it."""
    text = " ".join(broke.text.split())
    if len(secret) >= 8:
        text = text.replace(secret, "[key]")
    if len(text) > 400:
        text = text[:399] + "…"
    return msgspec.structs.replace(broke, text=text)


def context_exceeded(message: str) -> bool:
    """Whether an error says, in any server's words, that the request is larger than the model takes."""
    if re.search(TOO_LARGE, message):
        return True  # also when it is larger than a minute's worth of tokens: waiting cannot help
    return bool(re.search(CONTEXT, message)) and not re.search(PER_TIME, message)


def _by_status(status: int, message: str, codes: frozenset[str], wait: float | None) -> Failure:
    if (
        status == 402
        or codes & QUOTA
        or re.search(NO_CREDIT, message)
        or (status == 429 and _spent(message, codes, wait))
    ):
        return Failure.QUOTA
    if status in (401, 403) or (status == 400 and re.search(BAD_KEY, message)):
        return Failure.AUTH
    if status in (404, 405, 410) or 300 <= status < 400 or "model_not_found" in codes:
        return Failure.NOT_FOUND
    if status == 413 or any(map(context_exceeded, (message, *codes))):
        return Failure.CONTEXT
    if status == 429:
        return Failure.RATE
    return Failure.OVERLOADED if status in (408, 409) or status >= 500 else Failure.REFUSED


def _spent(message: str, codes: frozenset[str], wait: float | None) -> bool:
    """Whether waiting a minute cannot help: the day's share is used up, there never was one, or there is no credit."""
    if any("PerDay" in code for code in codes) or re.search(NONE_AT_ALL, message):
        return True
    return wait is None and bool(re.search(PLAN, message))


def _broke(target: Target, kind: Failure, status: str, message: str, wait: float | None, request_id: str) -> Broke:
    place = {"name": target.name, "model": target.model, "address": target.address}
    words, remedy = (template.format_map(place) for template in WORDS[kind])
    message = message.strip().rstrip(".")
    return Broke(kind, f"{words}{status}{': ' if message else ''}{message}.", remedy, wait, request_id)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and what led to it."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for part in error.exceptions:
                yield from _chain(part)
        error = error.__cause__ or error.__context__
