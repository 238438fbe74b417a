"""Lists well-known formats of API keys and other tokens, and finds such tokens in a text.

Facts come from the vendors' documentation and from the rules of the scanners gitleaks, trufflehog, detect-secrets and
noseyparker: prefixes, lengths and alphabets. Where vendors announce longer tokens (GitHub: up to 255 characters), a
pattern takes the whole run of token characters.

A search for each prefix costs 0.6 ms per megabyte, so that 50 of them cost 30. Nearly every token holds a run of at
least 20 characters of `[A-Za-z0-9_-]`, and ordinary source has few such runs. They are found in a translated copy of
the text, in which all these characters are one letter; only what a run begins with is looked up.
"""

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import msgspec

RUN = 20
"""Characters of the shortest run that is looked at."""


class TokenFormat(msgspec.Struct, frozen=True):
    """A format: tokens begin with one of `hints`, where `pattern` matches them; group 1, if any, is what is secret."""

    name: str
    hints: tuple[str, ...]
    pattern: str
    kinds: int = 2
    """How many of lower case, upper case and digits a token has at least; else it is a placeholder."""


def _hex(prefix: str, length: int) -> str:
    return rf"{prefix}[0-9a-f]{{{length}}}(?![0-9A-Za-z])"


def _word(prefix: str, least: int, most: str = "") -> str:
    return rf"{prefix}[0-9A-Za-z]{{{least},{most}}}(?![0-9A-Za-z])"


AT_RUN = (
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
    TokenFormat("Brave Search API key", ("BSA",), r"BSA[\w-]{24,32}(?![\w-])", kinds=3),
    TokenFormat("Tavily API key", ("tvly-",), r"tvly-(?:dev-|prod-)?[0-9A-Za-z-]{28,}"),
    TokenFormat("GitHub token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"gh[pousr]_\w{36,}"),
    TokenFormat("GitHub token", ("github_pat_",), r"github_pat_\w{50,}"),
    # Routable tokens go on behind a dot.
    TokenFormat(
        "GitLab token",
        ("glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glsoat-"),
        r"gl(?:pat|dt|rt|ptt|cbt|soat)-[\w-]{20,}(?:\.[\w.]+)?",
    ),
    TokenFormat("AWS access key ID", ("AKIA", "ASIA"), r"A[KS]IA[A-Z2-7]{16}(?![0-9A-Za-z])", kinds=1),
    TokenFormat("Amazon Bedrock API key", ("ABSK",), r"ABSK[0-9A-Za-z+/]{100,}={0,2}"),
    TokenFormat("Slack token", ("xoxa-", "xoxb-", "xoxp-", "xoxr-", "xoxs-", "xoxe"), r"xox[abeprs][-.][\w.-]{20,}"),
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
BEFORE_RUN = (
    TokenFormat("SendGrid API key", ("SG.",), r"SG\.[\w-]{20,24}\.[\w-]{39,50}"),
    TokenFormat("HashiCorp Vault token", ("hvs.",), r"hvs\.[\w-]{24,}"),
    TokenFormat("Google OAuth token", ("ya29.",), r"ya29\.[\w-]{30,}"),
)
"""Tokens of which a run follows right behind the hint."""
ANYWHERE = (
    TokenFormat(
        "private key",
        ("-----BEGIN ",),
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?:[^-]++|-(?!----))*+-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        # Cut off: as many lines of base64 as there are, with what stands between lines in a listing or a literal.
        r"|(?:[^0-9A-Za-z+/=]{0,12}\d{0,6}[^0-9A-Za-z+/=]{0,12}[0-9A-Za-z+/=]{40,}+)++)",
    ),
    TokenFormat(
        "AWS secret access key",
        ("ecret_access_key", "ECRET_ACCESS_KEY", "ecretAccessKey"),
        r"(?i:ecret_?access_?key)\\?[\"']?[ \t]{0,20}(?:[:=]>?|>)[ \t]{0,20}\\?[\"']?"
        r"([0-9A-Za-z/+]{40})(?![0-9A-Za-z/+=])",
    ),
    TokenFormat("Azure storage key", ("AccountKey=",), r"AccountKey=([0-9A-Za-z+/]{40,90}={0,2})"),
    TokenFormat(
        "Slack webhook",
        ("://hooks.slack.com/",),
        r"://hooks\.slack\.com/((?:services|workflows|triggers)/[\w/]{40,80})",
    ),
    TokenFormat("password in URL", ("://",), r"://[^\s:/?#@'\"<>]{0,80}:([^\s/?#'\"<>{}`\\]{8,200})@"),
)
"""Tokens with a hint of their own that is rare enough to be searched for."""
FORMATS = AT_RUN + BEFORE_RUN + ANYWHERE

_FOLDED = bytes(ord("a" if chr(code).isalnum() or chr(code) in "_-" else " ") for code in range(128)).ljust(256)
_NEEDLE = b"a" * RUN
_STARTS: dict[str, list[tuple[str, TokenFormat]]] = {}
for _format in AT_RUN:
    for _hint in _format.hints:
        _STARTS.setdefault(_hint[:2], []).append((_hint, _format))

# What may stand glued before a token: the rest of an escape in a literal or from a terminal, of a percent-encoding,
# and marks of emphasis.
_GLUED = re.compile(
    r"(?:(?<=\\)(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[nrtbfv])|(?<=[\[;])\d*[mK]|(?<=%)[0-9A-F]{2})?[_-]*"
)
_MAY_BE_GLUED = frozenset("\\[;%")

_PLACEHOLDER = re.compile(r"EXAMPLE|example|(.)\1{4}|[xX]{4}|your|YOUR|Your|\.\.\.|…")
_NOT_RANDOM_PASSWORD = re.compile(r"pass|word|secret|token|^[$%*(\[]|%s|[*]{3}", re.IGNORECASE)


class FoundToken(msgspec.Struct, frozen=True):
    """A token in a text: text[start:end] is what is secret."""

    start: int
    end: int
    name: str


def find_tokens(text: str) -> list[FoundToken]:
    """Return the tokens in `text` in their order; they do not overlap."""
    found = [token for start, token_format in _candidates(text) if (token := _token(text, start, token_format))]
    if len(found) < 2:
        return found
    found.sort(key=lambda token: (token.start, -token.end))
    apart = found[:1]
    for token in found[1:]:
        if token.start >= apart[-1].end:
            apart.append(token)
    return apart


def _candidates(text: str) -> Iterator[tuple[int, TokenFormat]]:
    """Yield the places of hints, with formats to try there."""
    for token_format in ANYWHERE:
        for hint in token_format.hints:
            start = text.find(hint)
            while start >= 0:
                yield start, token_format
                start = text.find(hint, start + len(hint))
    # One byte stands for each character, so that places are the same.
    folded = text.encode("ascii", "replace").translate(_FOLDED)
    start = folded.find(_NEEDLE)
    while start >= 0:
        if formats := _STARTS.get(text[start : start + 2]):
            yield from _hinted(text, start, formats)
        before = text[start - 1 : start]
        if before in _MAY_BE_GLUED or text[start] in "_-":
            inner = _GLUED.match(text, start)
            if inner and inner.end() > start and (formats := _STARTS.get(text[inner.end() : inner.end() + 2])):
                yield from _hinted(text, inner.end(), formats)
        elif before == ".":
            for token_format in BEFORE_RUN:
                for hint in token_format.hints:
                    if text.startswith(hint, start - len(hint)):
                        yield start - len(hint), token_format
        end = folded.find(b" ", start + RUN)
        if end < 0:
            break
        start = folded.find(_NEEDLE, end)


def _hinted(text: str, start: int, formats: list[tuple[str, TokenFormat]]) -> Iterator[tuple[int, TokenFormat]]:
    for hint, token_format in formats:
        if text.startswith(hint, start):
            yield start, token_format


def _token(text: str, start: int, token_format: TokenFormat) -> FoundToken | None:
    match = _compiled(token_format.pattern).match(text, start)
    if match is None:
        return None
    group = match.re.groups
    return FoundToken(*match.span(group), token_format.name) if _is_random(match[group], token_format) else None


def _is_random(secret: str, token_format: TokenFormat) -> bool:
    """Return False for placeholders, as they stand in documentation, and for words."""
    if token_format.name == "private key":
        return re.search(r"[0-9A-Za-z+/]{40}", secret) is not None
    if token_format.name == "password in URL" and _NOT_RANDOM_PASSWORD.search(secret):
        return False
    sample = secret[:200]
    body = sample[max((len(hint) for hint in token_format.hints if sample.startswith(hint)), default=0) :]
    kinds = (re.search("[a-z]", body), re.search("[A-Z]", body), re.search("[0-9]", body))
    return (
        sum(map(bool, kinds)) >= token_format.kinds
        and len(set(body)) >= min(9, len(body) // 2)
        and sum(ord(after) - ord(before) == 1 for before, after in pairwise(body)) < len(body) / 4
        and not _PLACEHOLDER.search(body)
    )


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)
