"""These tests check that tokens of known formats are found anywhere, and ordinary source and placeholders are not."""

import base64
import json
import string
import sysconfig
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from ikigai.core.redaction import Redactor, looks_like_key
from ikigai.core.token_formats import TOKEN_FORMATS, find_tokens

LOWER, UPPER, DIGITS = string.ascii_lowercase, string.ascii_uppercase, string.digits
BASE62 = LOWER + UPPER + DIGITS
BASE64URL = BASE62 + "-_"
BASE64 = BASE62 + "+/"
HEX = DIGITS + "abcdef"
REDACTOR = Redactor({}, formats=True)


class Draw:
    """Return a function that makes a random text from an alphabet and a length."""

    def __init__(self, seed: str) -> None:
        self.random = Random(seed)

    def __call__(self, alphabet: str, length: int) -> str:
        return "".join(self.random.choices(alphabet, k=length))

    def json(self, least: int, most: int) -> str:
        """Return a JSON object with this many characters in its only field, as in a JSON web token."""
        text = json.dumps({"sub": self(BASE62, self.random.randint(least, most))})
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    def private_key(self, label: str) -> str:
        body = base64.encodebytes(self.random.randbytes(600)).decode()
        lines = body.replace("\n", "")
        folded = "\n".join(lines[start : start + 64] for start in range(0, len(lines), 64))
        return f"-----BEGIN {label}-----\n{folded}\n-----END {label}-----"


# How vendors write them, and where the secret part begins; the name that is to be shown.
TOKENS: dict[str, tuple[str, Callable[[Draw], str]]] = {
    "anthropic": ("Anthropic API key", lambda r: f"sk-ant-api03-{r(BASE64URL, 93)}AA"),
    "anthropic oauth": ("Anthropic API key", lambda r: f"sk-ant-oat01-{r(BASE64URL, 93)}AA"),
    "anthropic admin": ("Anthropic API key", lambda r: f"sk-ant-admin01-{r(BASE64URL, 93)}AA"),
    "openrouter": ("OpenRouter API key", lambda r: f"sk-or-v1-{r(HEX, 64)}"),
    "openai project": ("OpenAI API key", lambda r: f"sk-proj-{r(BASE64URL, 74)}T3BlbkFJ{r(BASE64URL, 74)}"),
    "openai service": ("OpenAI API key", lambda r: f"sk-svcacct-{r(BASE64URL, 58)}T3BlbkFJ{r(BASE64URL, 58)}"),
    "openai legacy": ("API key", lambda r: f"sk-{r(BASE62, 20)}T3BlbkFJ{r(BASE62, 20)}"),
    "deepseek": ("API key", lambda r: f"sk-{r(HEX, 32)}"),
    "google": ("Google API key", lambda r: f"AIzaSy{r(BASE64URL, 33)}"),
    "groq": ("Groq API key", lambda r: f"gsk_{r(BASE62, 52)}"),
    "xai": ("xAI API key", lambda r: f"xai-{r(BASE62, 80)}"),
    "perplexity": ("Perplexity API key", lambda r: f"pplx-{r(BASE62, 48)}"),
    "hugging face": ("Hugging Face token", lambda r: f"hf_{r(LOWER + UPPER, 34)}"),
    "replicate": ("Replicate token", lambda r: f"r8_{r(BASE62, 37)}"),
    "brave": ("Brave Search API key", lambda r: f"BSA{r(BASE64URL, 28)}"),
    "tavily": ("Tavily API key", lambda r: f"tvly-dev-{r(BASE62, 32)}"),
    "github": ("GitHub token", lambda r: f"gh{r('pousr', 1)}_{r(BASE62, 36)}"),
    "github long": ("GitHub token", lambda r: f"ghs_{r(BASE62, 251)}"),
    "github fine": ("GitHub token", lambda r: f"github_pat_{r(BASE62, 22)}_{r(BASE62, 59)}"),
    "gitlab": ("GitLab token", lambda r: f"glpat-{r(BASE64URL, 20)}"),
    "gitlab routable": ("GitLab token", lambda r: f"glpat-{r(BASE64URL, 40)}.01.{r(LOWER + DIGITS, 9)}"),
    "gitlab runner": ("GitLab token", lambda r: f"glrt-{r(BASE64URL, 20)}"),
    "aws id": ("AWS access key ID", lambda r: f"A{r('KS', 1)}IA{r(UPPER + '234567', 16)}"),
    "bedrock": ("Amazon Bedrock API key", lambda r: f"ABSKQmVkcm9ja0FQSUtleS0{r(BASE64, 109)}"),
    "slack bot": ("Slack token", lambda r: f"xoxb-{r(DIGITS, 12)}-{r(DIGITS, 13)}-{r(BASE62, 24)}"),
    "slack user": ("Slack token", lambda r: f"xoxp-{r(DIGITS, 12)}-{r(DIGITS, 12)}-{r(DIGITS, 13)}-{r(HEX, 32)}"),
    "slack legacy": ("Slack token", lambda r: f"xox{r('ars', 1)}-{r(DIGITS, 12)}-{r(DIGITS, 12)}-{r(HEX, 32)}"),
    "slack app": ("Slack token", lambda r: f"xapp-1-A{r(UPPER + DIGITS, 10)}-{r(DIGITS, 13)}-{r(HEX, 64)}"),
    "stripe": ("Stripe API key", lambda r: f"sk_live_{r(BASE62, 24)}"),
    "stripe restricted": ("Stripe API key", lambda r: f"rk_live_51{r(BASE62, 97)}"),
    "npm": ("npm token", lambda r: f"npm_{r(BASE62, 36)}"),
    "pypi": ("PyPI token", lambda r: f"pypi-AgEIcHlwaS5vcmc{r(BASE64URL, 150)}"),
    "docker": ("Docker Hub token", lambda r: f"dckr_pat_{r(BASE64URL, 27)}"),
    "digitalocean": ("DigitalOcean token", lambda r: f"do{r('opr', 1)}_v1_{r(HEX, 64)}"),
    "databricks": ("Databricks token", lambda r: f"dapi{r(HEX, 32)}"),
    "shopify": ("Shopify token", lambda r: f"shpat_{r(HEX, 32)}"),
    "linear": ("Linear API key", lambda r: f"lin_api_{r(BASE62, 40)}"),
    "notion": ("Notion token", lambda r: f"ntn_{r(DIGITS, 11)}{r(BASE62, 35)}"),
    "notion old": ("Notion token", lambda r: f"secret_{r(BASE62, 43)}"),
    "twilio": ("Twilio API key", lambda r: f"SK{r(HEX, 32)}"),
    "mailgun": ("Mailgun API key", lambda r: f"key-{r(HEX, 32)}"),
    "grafana": ("Grafana token", lambda r: f"glsa_{r(BASE62, 32)}_{r(HEX, 8)}"),
    "age": ("age secret key", lambda r: f"AGE-SECRET-KEY-1{r('QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L', 58)}"),
    "sendgrid": ("SendGrid API key", lambda r: f"SG.{r(BASE64URL, 22)}.{r(BASE64URL, 43)}"),
    "vault": ("HashiCorp Vault token", lambda r: f"hvs.{r(BASE64URL, 95)}"),
    "google oauth": ("Google OAuth token", lambda r: f"ya29.{r(BASE64URL, 120)}"),
    "discord": (
        "Discord bot token",
        lambda r: (
            base64.b64encode(r("123456789", 1).encode() + r(DIGITS, 17).encode()).decode()
            + f".{r(BASE64URL, 6)}.{r(BASE64URL, 38)}"
        ),
    ),
    "jwt": ("JSON web token", lambda r: f"eyJhbGciOiJIUzI1NiJ9.{r.json(20, 200)}.{r(BASE64URL, 43)}"),
    "jwt typed": (
        "JSON web token",
        lambda r: f"eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.{r.json(9, 99)}.{r(BASE64URL, 342)}",
    ),
}
# Where only a part of the text is secret: (name, what stands around it with {} in its place, the secret).
PARTS: dict[str, tuple[str, str, Callable[[Draw], str]]] = {
    "telegram": ("Telegram bot token", "7364519820:{}", lambda r: f"AA{r(BASE64URL, 33)}"),
    "aws env": ("AWS secret access key", "AWS_SECRET_ACCESS_KEY={}", lambda r: r(BASE64, 40)),
    "aws file": ("AWS secret access key", "aws_secret_access_key = {}", lambda r: r(BASE64, 40)),
    "aws json": ("AWS secret access key", '"SecretAccessKey": "{}"', lambda r: r(BASE64, 40)),
    "aws code": ("AWS secret access key", "secretAccessKey: '{}'", lambda r: r(BASE64, 40)),
    "azure": (
        "Azure storage key",
        "DefaultEndpointsProtocol=https;AccountName=x;AccountKey={};EndpointSuffix=core.windows.net",
        lambda r: f"{r(BASE64, 86)}==",
    ),
    "slack webhook": (
        "Slack webhook",
        "https://hooks.slack.com/{}",
        lambda r: f"services/T{r(UPPER + DIGITS, 10)}/B{r(UPPER + DIGITS, 10)}/{r(BASE62, 24)}",
    ),
    "postgres": ("password in URL", "postgres://user:{}@db.example.com:5432/app", lambda r: r(BASE62, 16)),
    "redis": ("password in URL", "redis://:{}@cache:6379/0", lambda r: r(BASE64URL, 24)),
    "human": ("password in URL", "mysql+pymysql://root:{}@localhost/app", lambda r: f"{r(LOWER, 8)}{r(DIGITS, 4)}!"),
}
WHERE = {
    "alone": "{}",
    "prose": "The one they use is {}, but it is going to be replaced soon.",
    "code": 'client = Client(key="{}", retries=3)\nprint(client)\n',
    "json": '{{"id": 5, "value": "{}", "on": true}}',
    "json in json": '{{"output": "first line\\n{}\\nlast line\\tx"}}',
    "yaml": "service:\n  credentials: {}\n  region: eu\n",
    "env": "DEBUG=1\nexport SERVICE_KEY={}\nPORT=80\n",
    "shell": "$ cat .config\n{}\n$ ",
    "header": "curl -H 'Authorization: Bearer {}' https://example.com/x",
    "query": "https://example.com/v1?key={}&alt=json",
    "quoted query": "next=%2Fv1%3Fkey%3D{}%26alt%3Djson",
    "colors": "\x1b[1;32m{}\x1b[0m",
    "grep colors": "a.env:3:\x1b[01;31m\x1b[K{}\x1b[m\x1b[K",
    "escaped colors": '"\\u001b[33m{}\\u001b[0m"',
    "diff": "@@ -1,2 +1,2 @@\n-KEY=old\n+{}\n",
    "listing": "    12\t{}\n    13\tnext = 1\n",
    "table": "| name | {} | 5 |",
}
EACH_ROUND = pytest.mark.parametrize("rounds", [20, pytest.param(60, marks=pytest.mark.long)])
"""Numbers of random tokens of a kind in each place."""


@EACH_ROUND
@pytest.mark.parametrize("kind", TOKENS)
def test_token_is_replaced(kind: str, rounds: int) -> None:
    name, make = TOKENS[kind]
    for where, around in WHERE.items():
        draw = Draw(kind + where)
        tokens = [make(draw) for _ in range(rounds)]
        replaced = sum(
            REDACTOR.foreign(around.format(token)) == around.format(f"[redacted: {name}]") for token in tokens
        )
        assert replaced >= 0.95 * rounds, where
        assert sum(looks_like_key(token) == name for token in tokens) >= 0.95 * rounds, where


@EACH_ROUND
@pytest.mark.parametrize("kind", PARTS)
def test_secret_part_is_replaced_and_the_rest_stays(kind: str, rounds: int) -> None:
    name, around, make = PARTS[kind]
    for where in WHERE:
        draw = Draw(kind + where)
        replaced = 0
        for _ in range(rounds):
            secret = make(draw)
            before, after = (WHERE[where].format(around.format(text)) for text in (secret, f"[redacted: {name}]"))
            replaced += REDACTOR.foreign(before) == after
        assert replaced >= 0.95 * rounds, where


@pytest.mark.parametrize("label", ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY"])
@pytest.mark.parametrize(
    "write",
    [
        str,
        json.dumps,
        lambda key: f"a: |\n  {key}".replace("\n", "\n    "),
        lambda key: "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(key.splitlines(), 9)),
        lambda key: "\n".join(f'    "{line}\\n"' for line in key.splitlines()),
        lambda key: key.replace("\n", "\r\n"),
    ],
    ids=["file", "json", "yaml", "listing", "literal", "dos"],
)
def test_private_key_is_replaced(label: str, write: Callable[[str], str]) -> None:
    key = Draw(label).private_key(label)
    lines = key.splitlines()[1:-1]
    for whole in (write(key), write("\n".join(key.splitlines()[:-2]))):
        redacted = REDACTOR.foreign(f"before\n{whole}\nafter -----BEGIN CERTIFICATE-----")
        assert redacted.startswith("before\n") and redacted.endswith("after -----BEGIN CERTIFICATE-----")
        assert "[redacted: private key]" in redacted
        assert not any(line in redacted for line in lines)


PLACEHOLDERS = [
    "sk-ant-...", "sk-ant-api03-your-key-here-0000000000000000000000", "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "AKIAIOSFODNN7EXAMPLE", "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", f"ghp_{'x' * 36}",
    f"ghp_{'0123456789' * 4}", f"npm_{LOWER}{DIGITS}", "sk-learn-contrib-estimators-with-long-names-in-them",
    "hf_hub_download_with_progress_bars_and_retries", "secret_key_base_generator_function_for_all_applications",
    "dapiDataGetTopLongShortPositionRatio", "postgres://user:password@localhost/db", "AA" + "a" * 33,
    "postgresql://scott:tiger@localhost/test", "https://{user}:{password}@host/", "mongodb://user:hunter2pass1@host",
    "https://user:$GITHUB_TOKEN@github.com/a/b", "redis://user:${REDIS_PASSWORD_1}@h", "https://example.com:8080/a@b",
    "https://user:pass1234word@host", "https://a.b:123,c.d:456@x", "SKIPPED_TESTS_OF_LONG_STANDING", "eyJhbGciOiJIUzI1",
    "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----",
    f"-----BEGIN CERTIFICATE-----\n{'MIIB' * 99}\n-----END CERTIFICATE-----", "ASIAPACIFICSOUTHEAST1",
    f"-----BEGIN PUBLIC KEY-----\n{'MIIB' * 99}\n-----END PUBLIC KEY-----", "key-00000000000000000000000000000000",
    "https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX", "xoxb-your-token-goes-in-here",
    "AIQAgAiADQc7/BSAEKAIYEQYADQFBxAMhBiAEIAIgA0HW",
]  # fmt: skip


@pytest.mark.parametrize("text", PLACEHOLDERS)
def test_placeholder_stays(text: str) -> None:
    assert REDACTOR.foreign(f"{text}\n{text} x") == f"{text}\n{text} x"


def test_every_format_is_tested() -> None:
    tested = {name for name, _ in TOKENS.values()} | {name for name, *_ in PARTS.values()} | {"private key"}
    assert tested == {token_format.name for token_format in TOKEN_FORMATS}


def test_standard_library_stays_as_it_is() -> None:
    sources = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")) + sorted(
        Path(sysconfig.get_path("stdlib")).glob("[a-s]*/*.py")
    )
    read = 0
    replaced: list[str] = []
    for source in sources:
        text = source.read_text("utf-8", "replace")
        read += len(text)
        replaced += [f"{source}: {token.name}" for token in find_tokens(text)]
    assert read > 5_000_000
    assert replaced == []


LARGE = 250_000
HOSTILE = [
    "a", "-", "=", "@", "€", "\n", "sk-", "sk-ant-", "eyJ", "eyJhbGciOiJIUzI1NiJ9.", "eyJhbGciOiJIUzI1NiJ9.eyJ", "://", "://u:",
    "://u:p@", "AccountKey=", "aws_secret_access_key=", "PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----", "-----",
    f"-----BEGIN PRIVATE KEY-----{'aB3' * 20}", f"sk-{'x' * 40} ", f"xoxb-{'a1' * 12}.", f"glpat-{'a1' * 12}.",
    f"SG.{'a1' * 11}.", f"12345678:AA{'a1' * 12}", "\\n", f"\\n{'a' * 24}", "\x1b[1;32m", f"[32m{'a' * 24}", "ghp_",
]  # fmt: skip


@pytest.mark.timeout(30)
@pytest.mark.parametrize("part", HOSTILE)
def test_large_hostile_text_is_read_in_linear_time(part: str) -> None:
    """In quadratic time this takes many minutes."""
    for before in ("", f"-----BEGIN PRIVATE KEY-----\n{'aB3' * 20}", "postgres://user:"):
        REDACTOR.foreign(before + part * (LARGE // len(part)))
