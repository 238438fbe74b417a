"""This module lists well-known formats of API keys and other tokens, and finds such tokens in a text.

The formats come from the vendors' documentation and from the rules of the scanners gitleaks, trufflehog, detect-secrets
and noseyparker: prefixes, lengths and alphabets. Where vendors announce longer tokens (GitHub: up to 255 characters), a
pattern takes the whole run of token characters.

A search for each prefix costs 0.6 ms per megabyte, so that 50 of them cost 30. Nearly every token holds a run of at
least 20 characters of `[A-Za-z0-9_-]`, and ordinary source has few such runs. They are found in a translated copy of
the text, in which all these characters are one letter. Only the beginning of a run is looked up.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import TypeAlias

import msgspec

MIN_RUN_CHARACTERS = 20
"""Characters of the shortest run that is looked at."""


class TokenFormat(msgspec.Struct, frozen=True):
    """A format: tokens begin with one of `hints`, where `pattern` matches them; group 1, if any, is the secret part."""

    name: str
    hints: tuple[str, ...]
    pattern: str
    kinds: int = 2
    """The least number of kinds among lower case, upper case and digits; a token with fewer is taken for words. With 0
    the pattern alone decides.
    """


def _hex(prefix: str, length: int) -> str:
    return rf"{prefix}[0-9a-f]{{{length}}}(?![0-9A-Za-z])"


def _word(prefix: str, least: int, most: str = "") -> str:
    return rf"{prefix}[0-9A-Za-z]{{{least},{most}}}(?![0-9A-Za-z])"


FORMATS_AT_RUN = (
    TokenFormat("Anthropic API key", ("sk-ant-",), r"sk-ant-[\w-]{32,}"),
    TokenFormat("OpenRouter API key", ("sk-or-",), r"sk-or-[\w-]{32,}"),
    TokenFormat(
        "OpenAI API key",
        ("sk-proj-", "sk-svcacct-", "sk-admin-", "sk-None-"),
        r"sk-(?:proj|svcacct|admin|None)-[\w-]{32,}",
    ),
    # Of OpenAI until 2024, and of the many services that took over its form.
    TokenFormat("API key", ("sk-",), _word("sk-", 32)),
    TokenFormat("Google API key", ("AIza",), r"AIza[\w-]{35}(?![\w-])"),
    TokenFormat("Groq API key", ("gsk_",), _word("gsk_", 40)),
    TokenFormat("xAI API key", ("xai-",), _word("xai-", 60)),
    TokenFormat("Perplexity API key", ("pplx-",), _word("pplx-", 40)),
    TokenFormat("Hugging Face token", ("hf_",), _word("hf_", 30)),
    TokenFormat("Replicate token", ("r8_",), _word("r8_", 37, "40")),
    # Not within base64, where so short a prefix is bound to come up.
    TokenFormat("Brave Search API key", ("BSA",), r"(?<![0-9A-Za-z][+/])BSA[\w-]{24,32}(?![\w-])", kinds=3),
    TokenFormat("Tavily API key", ("tvly-",), r"tvly-(?:dev-|prod-)?[0-9A-Za-z-]{28,}"),
    TokenFormat("GitHub token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"gh[pousr]_\w{36,}"),
    TokenFormat("GitHub token", ("github_pat_",), r"github_pat_\w{50,}"),
    # Routable tokens go on behind a dot.
    TokenFormat(
        "GitLab token",
        ("glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glsoat-"),
        r"gl(?:pat|dt|rt|ptt|cbt|soat)-[\w-]{20,}(?:\.[\w.]{2,40})?",
    ),
    TokenFormat("AWS access key ID", ("AKIA", "ASIA"), r"A[KS]IA[A-Z2-7]{16}(?![0-9A-Za-z])", kinds=1),
    TokenFormat("Amazon Bedrock API key", ("ABSK",), r"ABSK[0-9A-Za-z+/]{100,}={0,2}"),
    TokenFormat(
        "Slack token",
        ("xoxa-", "xoxb-", "xoxp-", "xoxr-", "xoxs-", "xoxe-", "xoxe."),
        r"xox[abeprs](?:\.xox[bp])?-[\w-]{20,}",
    ),
    TokenFormat("Slack token", ("xapp-",), r"xapp-\d-[\w-]{20,}"),
    TokenFormat("Stripe API key", ("sk_live_", "rk_live_"), _word("[rs]k_live_", 20)),
    TokenFormat("npm token", ("npm_",), _word("npm_", 36)),
    TokenFormat("PyPI token", ("pypi-AgE",), r"pypi-AgE[\w-]{50,}"),
    TokenFormat("Docker Hub token", ("dckr_pat_", "dckr_oat_"), r"dckr_[po]at_[\w-]{20,}"),
    TokenFormat("DigitalOcean token", ("dop_v1_", "doo_v1_", "dor_v1_"), _hex("do[opr]_v1_", 64)),
    TokenFormat("Databricks token", ("dapi",), r"dapi[0-9a-f]{32}(?:-\d)?(?![0-9A-Za-z])"),
    TokenFormat("Shopify token", ("shpat_", "shpca_", "shppa_", "shpss_"), r"shp(?:at|[cp]a|ss)_[0-9A-Fa-f]{32}(?!\w)"),
    TokenFormat("Linear API key", ("lin_api_",), _word("lin_api_", 40)),
    TokenFormat("Notion token", ("ntn_",), _word("ntn_", 40)),
    TokenFormat("Notion token", ("secret_",), _word("secret_", 43, "43"), kinds=3),
    TokenFormat("Twilio API key", ("SK",), _hex("SK", 32)),
    TokenFormat("Mailgun API key", ("key-",), _hex("key-", 32)),
    TokenFormat("Grafana token", ("glsa_",), r"glsa_[0-9A-Za-z]{32}_[0-9A-Fa-f]{8}"),
    TokenFormat("age secret key", ("AGE-SECRET-KEY-1",), r"AGE-SECRET-KEY-1[02-9AC-HJ-NP-Z]{58}"),
    # Behind the bot's number, which is public.
    TokenFormat("Telegram bot token", ("AA",), r"(?<=\d{8}:)AA[\w-]{33}(?![\w-])"),
    # Begins with the bot's number, as base64 of decimal digits.
    TokenFormat(
        "Discord bot token",
        tuple(first + second for first in "MNO" for second in "DTjz"),
        r"[MNO][DTjz][AEIMQUYcgk][0-5w-z][0-9A-Za-z]{19,24}\.[\w-]{6}\.[\w-]{27,}",
    ),
    TokenFormat("JSON web token", ("eyJ",), r"eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{16,}"),
)
"""Tokens that begin where a run of token characters begins."""
FORMATS_BEFORE_RUN = (
    TokenFormat("SendGrid API key", ("SG.",), r"SG\.[\w-]{20,24}\.[\w-]{39,50}"),
    TokenFormat("HashiCorp Vault token", ("hvs.",), r"hvs\.[\w-]{24,}"),
    TokenFormat("Google OAuth token", ("ya29.",), r"ya29\.[\w-]{30,}"),
)
"""Tokens of which a run follows right behind the hint."""
_PASSWORD = r"[^\s/?#'\"<>{}`\\]{8,200}"
FORMATS_ANYWHERE = (
    # The text between the first line and the last; where the last is cut off, all lines of base64 that follow, with the
    # prefixes and separators of lines in a listing or in a literal.
    TokenFormat(
        "private key",
        ("PRIVATE KEY",),
        r"(?:(?<=-BEGIN )|(?<=-BEGIN (?:RSA|DSA|PGP) )|(?<=-BEGIN EC )|(?<=-BEGIN OPENSSH )|(?<=-BEGIN ENCRYPTED ))"
        r"PRIVATE KEY(?: BLOCK)?-----(?=(?:[^-]|-(?!----)){0,400}?[0-9A-Za-z+/]{40})"
        r"((?:[^-]++|-(?!----))*+(?=-----END )"
        r"|(?:(?:\\[rn]|[^0-9A-Za-z+/=]){0,24}(?:\d{1,6}[^0-9A-Za-z+/=]{1,12})?[0-9A-Za-z+/=]{40,}+)++)",
        kinds=0,
    ),
    TokenFormat(
        "AWS secret access key",
        ("ecret_access_key", "ECRET_ACCESS_KEY", "ecretAccessKey"),
        r"(?i:ecret_?access_?key)\\?[\"']?[ \t]{0,20}(?:[:=]>?|>)[ \t]{0,20}\\?[\"']?"
        r"([0-9A-Za-z/+]{40})(?![0-9A-Za-z/+=])",
    ),
    TokenFormat("Azure storage key", ("AccountKey=",), r"AccountKey=([0-9A-Za-z+/]{40,90}={0,2})"),
    TokenFormat("Slack webhook", ("://",), r"://hooks\.slack\.com/((?:services|workflows|triggers)/[\w/]{40,80})"),
    # Words are passwords in documentation, and a number with a comma is the port of the first of several hosts.
    TokenFormat(
        "password in URL",
        ("://",),
        rf"://[^\s:/?#@'\"<>]{{0,80}}:(?={_PASSWORD}@)(?![$%*(\[]|\d{{1,5}},|[^\s@]*(?:%s|(?i:pass|word|secret|token)))"
        rf"({_PASSWORD})@",
    ),
)
"""Tokens with a hint of their own that is rare enough to be searched for."""
TOKEN_FORMATS = FORMATS_AT_RUN + FORMATS_BEFORE_RUN + FORMATS_ANYWHERE
TOKEN_NAMES = frozenset(each.name for each in TOKEN_FORMATS)

_FOLDED = bytes(ord("a" if chr(code).isalnum() or chr(code) in "_-" else " ") for code in range(128)).ljust(256)
_NEEDLE = b"a" * MIN_RUN_CHARACTERS

_Hinted: TypeAlias = list[tuple[str, TokenFormat]]
"""Formats with a hint of each."""


def _by_hint(formats: tuple[TokenFormat, ...], length: int | None = None) -> dict[str, _Hinted]:
    """Return hints and their formats by the first `length` characters of the hint."""
    found: dict[str, _Hinted] = {}
    for token_format in formats:
        for hint in token_format.hints:
            found.setdefault(hint[:length], []).append((hint, token_format))
    return found


_AT_RUN = _by_hint(FORMATS_AT_RUN, 2)
_BEFORE_RUN = tuple(hint for token_format in FORMATS_BEFORE_RUN for hint in token_format.hints)
_ANYWHERE = _by_hint(FORMATS_ANYWHERE)

# The rest of an escape in a literal or from a terminal, or of a percent-encoding, may stand glued before a token.
_GLUED = re.compile(
    r"(?<=\\)(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[nrtbfv])|(?<=[\[;])\d*[mK]|(?<=%)[0-9A-F]{2}", re.ASCII
)
_MAY_BE_GLUED = frozenset("\\[;%")

_KINDS = tuple(map(re.compile, ("[a-z]", "[A-Z]", "[0-9]")))
_PLACEHOLDER = re.compile(r"EXAMPLE|example|(.)\1{7}|[xX]{4}|your|YOUR|Your|\.\.\.|12345|67890|abcdef|ABCDEF")


class FoundToken(msgspec.Struct, frozen=True):
    """A token in a text: text[start:end] is secret."""

    start: int
    end: int
    name: str


def find_tokens(text: str) -> list[FoundToken]:
    """Return the tokens in `text` in their order; they do not overlap."""
    found = list(_tokens(text, _at_runs(text)))
    for hint, formats in _ANYWHERE.items():
        if (start := text.find(hint)) >= 0:
            found += _tokens(text, _at_hints(text, hint, start, formats))
    # Of two in one place the first has the better name: a GitHub token may be the password of an address.
    found.sort(key=lambda token: token.start)
    apart: list[FoundToken] = []
    for token in found:
        if not apart or token.start >= apart[-1].end:
            apart.append(token)
    return apart


def _tokens(text: str, candidates: Iterator[tuple[int, TokenFormat]]) -> Iterator[FoundToken]:
    for start, token_format in candidates:
        if match := _compiled(token_format.pattern).match(text, start):
            secret = match.re.groups
            if _is_random(match[secret], token_format):
                yield FoundToken(*match.span(secret), token_format.name)


def _at_hints(text: str, hint: str, start: int, formats: _Hinted) -> Iterator[tuple[int, TokenFormat]]:
    """Yield the places of a hint, the first of which is `start`, and the formats to try there."""
    while start >= 0:
        for _, token_format in formats:
            yield start, token_format
        start = text.find(hint, start + len(hint))


def _at_runs(text: str) -> Iterator[tuple[int, TokenFormat]]:
    """Yield the places of hints at the beginning of runs, and the formats to try there."""
    # One byte stands for each character, so that places are the same.
    folded = text.encode("ascii", "replace").translate(_FOLDED)
    start = folded.find(_NEEDLE)
    while start >= 0:
        if text[start : start + 2] in _AT_RUN:
            yield from _hinted(text, start)
        before = text[start - 1] if start else ""
        if before == ".":
            if text.endswith(_BEFORE_RUN, 0, start):
                yield from _before_run(text, start)
        elif before in _MAY_BE_GLUED and (glued := _GLUED.match(text, start)):
            yield from _hinted(text, glued.end())
        inside = start + MIN_RUN_CHARACTERS
        start = folded.find(_NEEDLE, inside)
        if start == inside:  # the same run still
            end = folded.find(b" ", inside)
            start = folded.find(_NEEDLE, end) if end >= 0 else -1


def _before_run(text: str, start: int) -> Iterator[tuple[int, TokenFormat]]:
    for token_format in FORMATS_BEFORE_RUN:
        for hint in token_format.hints:
            if text.endswith(hint, 0, start):
                yield start - len(hint), token_format


def _hinted(text: str, start: int) -> Iterator[tuple[int, TokenFormat]]:
    for hint, token_format in _AT_RUN.get(text[start : start + 2], ()):
        if text.startswith(hint, start):
            yield start, token_format


def _is_random(secret: str, token_format: TokenFormat) -> bool:
    """Return False for words and for the placeholders of documentation."""
    if not token_format.kinds:
        return True
    body = secret[max((len(hint) for hint in token_format.hints if secret.startswith(hint)), default=0) :][:100]
    return (
        len(set(body)) >= min(9, len(body) // 2)
        and sum(kind.search(body) is not None for kind in _KINDS) >= token_format.kinds
        and not _PLACEHOLDER.search(body)
    )


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)
