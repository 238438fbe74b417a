"""These tests check that ikigai hides its own keys in every spelling, and tokens of known formats."""

import json
import time
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikigai.core.secrets.redaction import MIN_OWN_SECRET, Redactor, StreamRedactor, find_markers, looks_like_key
from ikigai.core.text.shown_text import ShownText

KEY = "k7" * 20
PASSWORD = 'p"ä/ss\\w@rd+1'


def test_own_secret_is_replaced_in_each_of_its_spellings() -> None:
    redactor = Redactor({"DB_PASSWORD": PASSWORD}, formats=False)
    for spelling in (PASSWORD, json.dumps(PASSWORD)[1:-1], json.dumps(PASSWORD, ensure_ascii=False)[1:-1]):
        assert redactor.own(f"a {spelling} b {spelling}") == "a [redacted: DB_PASSWORD] b [redacted: DB_PASSWORD]"
    for spelling in (quote(PASSWORD), quote(PASSWORD, safe="")):
        assert redactor.own(f"x://u:{spelling}@h") == "x://u:[redacted: DB_PASSWORD]@h"


def test_text_without_a_secret_is_the_same_object() -> None:
    text = "nothing " * 100
    for redactor in (Redactor({}, formats=True), Redactor({"KEY": KEY}, formats=True)):
        assert redactor.own(text) is text
        assert redactor.foreign(text) is text


def test_short_value_is_no_own_secret() -> None:
    short, long = "a" * (MIN_OWN_SECRET - 1), "b" * MIN_OWN_SECRET
    assert Redactor({"S": short, "L": long}, formats=True).foreign(f"{short} {long}") == f"{short} [redacted: L]"


def test_longer_secret_goes_before_the_one_it_begins_with() -> None:
    assert Redactor({"A": "x" * 12, "B": "x" * 12 + "y"}, formats=False).own("x" * 12 + "y") == "[redacted: B]"


def test_marker_is_recognized_and_is_no_secret() -> None:
    redacted = Redactor({"KEY": KEY}, formats=True).foreign(f"postgres://u:{KEY}@h")
    assert redacted == "postgres://u:[redacted: KEY]@h"
    assert find_markers(redacted) and not find_markers("redacted: KEY")
    assert looks_like_key(redacted) is None


def test_own_secret_keeps_its_name_where_it_is_of_a_known_format() -> None:
    key = "ghp_Zk3vQ9tLw7XyB2mNf8RcD4sHj6Ge1PaU5o0i"
    redactor = Redactor({"GITHUB_TOKEN": key}, formats=True)
    once = redactor.foreign(f"{key} and {key[:-1]}B")
    assert once == "[redacted: GITHUB_TOKEN] and [redacted: GitHub token]"
    assert redactor.foreign(once) is once


def test_password_in_url_has_the_name_of_the_token_that_it_is() -> None:
    token = "ghp_Zk3vQ9tLw7XyB2mNf8RcD4sHj6Ge1PaU5o0i"
    assert Redactor({}, formats=True).foreign(f"https://x:{token}@h/") == "https://x:[redacted: GitHub token]@h/"


def test_formats_are_found_only_if_wanted() -> None:
    text = "AKIA2E7KQZ5XNB4WLC3T"
    assert Redactor({}, formats=False).foreign(text) is text
    assert Redactor({}, formats=True).own(text) is text
    assert Redactor({}, formats=True).foreign(text) == "[redacted: AWS access key ID]"


STRUCK: dict[str, Callable[[str], str]] = {
    "bold": lambda text: "".join(f"{each}\b{each}" for each in text),
    "bolder": lambda text: "".join(f"{each}\b{each}\b{each}" for each in text),
    "underlined": lambda text: "".join(f"_\b{each}" for each in text),
    "underlined behind": lambda text: "".join(f"{each}\b_" for each in text),
    "both": lambda text: "".join(f"_\b{each}\b{each}" for each in text),
    "partly bold": lambda text: text[:5] + "".join(f"{each}\b{each}" for each in text[5:8]) + text[8:],
    "zero-width space": "\u200b".join,
    "joiners": "\u200c\u200d".join,
    "word joiner": lambda text: "\u2060".join((text[:3], text[3:])),
    "byte order mark": lambda text: "\ufeff".join((text[:9], text[9:])),
    "soft hyphen": "\u00ad".join,
    "grapheme joiner": "\u034f".join,
    "UTF-16": "\0".join,
    "marks of direction": lambda text: f"{text[:7]}\u202a\u200e{text[7:12]}\u2066{text[12:]}",
    "invisible operators": "\u2063".join,
    "variation selectors": "\ufe0f".join,
    "colored, bold and divided": lambda text: f"\x1b[1m{text[:4]}\u200b\x1b[m{text[4]}\b{text[4]}\u00ad{text[5:]}",
}
"""Ways to write a text that a terminal shows as it is."""


@pytest.mark.parametrize("write", STRUCK.values(), ids=STRUCK)
@pytest.mark.parametrize("secret", ["sk-abcdefgh-IJKL0123456", "ghp_Zk3vQ9tLw7XyB2mNf8RcD4sHj6Ge1PaU5o0i"])
def test_secret_that_is_overstruck_or_divided_by_nothing_is_replaced(secret: str, write: Callable[[str], str]) -> None:
    redactor = Redactor({"OWN": "sk-abcdefgh-IJKL0123456"}, formats=True)
    name = "OWN" if secret.startswith("sk") else "GitHub token"
    text = f"a: {write(secret)} x"
    assert ShownText(text).text == f"a: {secret} x"
    redacted = redactor.foreign(text)
    assert ShownText(redacted).text == f"a: [redacted: {name}] x"
    assert redacted.replace("\x1b[1m", "").replace("\x1b[m", "").strip("\b_") in (
        f"a: [redacted: {name}] x",
        f"a: [redacted: {name}]\b_ x",
    )
    assert redactor.key_in(text) == name
    if name == "OWN":
        for length in (1, 2, 3, 7):
            stream = StreamRedactor(redactor)
            shown = "".join(stream.feed(text[at : at + length]) for at in range(0, len(text), length))
            assert shown + stream.finish() == redactor.own(text) and "redacted: OWN" in redactor.own(text)


SECRETS = st.lists(
    st.text("ab/", min_size=12, max_size=16) | st.just("a" * 12) | st.just("a" * 14), min_size=1, max_size=4
)


@given(st.data(), SECRETS)
def test_stream_in_any_pieces_is_redacted_as_the_whole_text(data: st.DataObject, secrets: list[str]) -> None:
    redactor = Redactor({f"S{index}": secret for index, secret in enumerate(secrets)}, formats=False)
    escape = st.sampled_from(
        ("\x1b[1m", "\x1b]8;;" + "a" * 12 + "\x07", "\x1bPab\x1b\\", "\x1b", "\x9b0", "\x1b(B", "\x9dab")
    ) | st.sampled_from(
        ("\b", "a\b", "_\b", "\b_", "_", "\u200b", "\u00ad\ufeff", "\0", "\u200e", "\x9dx\x9d", "\x90\x1b")
    )
    part = st.sampled_from(secrets) | st.sampled_from(redactor.spellings) | st.text("ab/c", max_size=6) | escape
    part |= st.sampled_from([write(secret) for write in STRUCK.values() for secret in secrets])
    cut = part.flatmap(lambda text: st.integers(0, len(text)).map(lambda end: text[:end]))
    text = "".join(data.draw(st.lists(part | cut, max_size=8)))
    stream = StreamRedactor(redactor)
    shown, rest = "", text
    while rest:
        length = data.draw(st.integers(1, max(1, len(rest))))
        shown += stream.feed(rest[:length])
        rest = rest[length:]
    assert shown + stream.finish() == redactor.own(text)


def test_stream_holds_back_only_what_may_begin_a_secret() -> None:
    stream = StreamRedactor(Redactor({"KEY": "sk-abcdefghijkl"}, formats=False))
    assert stream.feed("my key is sk") == "my key is "
    assert stream.feed("y high") == "sky high"
    assert stream.feed(" sk-abcdefghijkl s") == " [redacted: KEY] "
    assert stream.finish() == "s"


def test_stream_lets_pass_what_holds_no_secret_at_once() -> None:
    stream = StreamRedactor(Redactor({"KEY": "sk-abcdefghijkl"}, formats=False))
    assert stream.feed("a \x1b[1mred\x1b[m ") == "a \x1b[1mred\x1b[m "
    assert stream.feed("\x1b[3") + stream.feed("1mx") == "\x1b[31mx"


OWN = "sk-abcdefgh-IJKL0123456"
TOKEN = "ghp_Zk3vQ9tLw7XyB2mNf8RcD4sHj6Ge1PaU5o0i"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("\x1b[01;31m\x1b[K", "\x1b[m\x1b[K"),  # grep --color
        ("\x1b[7m", "\x1b[27m"),  # git diff --color with its highlight
        ("\x1b[0m\x1b[1m\x1b[31m", "\x1b[0m"),  # rg --color
        ("\x1b[38;2;255;0;0m", "\x1b[39;49m"),
        ("\x1b[4:3m", "\x1b[24m"),
        ("\x9b31m", "\x9bm"),
        ("\x1b(B", "\x1b)0"),
        ("\x1b]8;;file:///x\x1b\\", "\x1b]8;;\x07"),
    ],
)
@pytest.mark.parametrize("secret", [OWN, TOKEN])
def test_secret_that_is_divided_by_escape_sequences_is_replaced(secret: str, before: str, after: str) -> None:
    redactor = Redactor({"OWN": OWN}, formats=True)
    name = "OWN" if secret == OWN else "GitHub token"
    for start in range(0, len(secret), 3):
        for end in range(start, len(secret) + 1, 5):
            text = f"a.txt:{secret[:start]}{before}{secret[start:end]}{after}{secret[end:]} x"
            redacted = redactor.foreign(text)
            assert ShownText(redacted).text == f"a.txt:[redacted: {name}] x", text
            assert not any(secret[at : at + 6] in redacted for at in range(4, len(secret) - 6))
            assert redactor.key_in(text) == name


def test_colors_within_a_secret_stay_behind_its_marker() -> None:
    redactor = Redactor({"OWN": OWN}, formats=False)
    text = f"\x1b[1m{OWN[:9]}\x1b[m{OWN[9:15]}\x1b]8;;x\x07{OWN[15:]}\x1b[2m."
    assert redactor.own(text) == "\x1b[1m[redacted: OWN]\x1b[m\x1b[2m."


def test_secret_in_an_address_that_a_terminal_does_not_show_is_replaced() -> None:
    text = f"\x1b]8;;https://h/?key={OWN}\x07page\x1b]8;;\x07 {OWN[:5]}\x1b[1m{OWN[5:]}"
    assert Redactor({"OWN": OWN}, formats=True).foreign(text) == (
        "\x1b]8;;https://h/?key=[redacted: OWN]\x07page\x1b]8;;\x07 [redacted: OWN]\x1b[1m"
    )


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "part",
    [
        *("\x1b", "\x1b]", "\x9d", "\x1b[1", "\x1b[1m", "s\x1b[1m", "\x1bPx\x1b\\", "\x1b]8;;a\x07"),
        *("a\ba", "_\b", "\b", "_", "\b_", "\u200b", "s\bs\b_\u00ad", "\x9da", "\0", "\x1b]\x9d"),
        "\x90" * 4_000 + "\x18",
        "\x1bP" + "\x9e" * 4_000 + "\x1b[m",
    ],
)
def test_many_escape_sequences_are_read_in_linear_time(part: str) -> None:
    redactor, start = Redactor({"OWN": OWN}, formats=True), time.thread_time()
    redactor.foreign(part * (500_000 // len(part)))
    assert time.thread_time() - start < 1.5
    stream = StreamRedactor(redactor)
    for _ in range(6_000 // (len(part) + 2)):
        stream.feed(part * 3)
    assert time.thread_time() - start < 4


@pytest.mark.parametrize("pieces", [1, 7, 1000])
@pytest.mark.parametrize("before", ["\x1b", "\x9b0", "a\x1b(", "\x1b[1m\x1b", "\x1b\x1b"])
def test_escape_sequence_that_takes_the_first_character_of_a_key_hides_none(before: str, pieces: int) -> None:
    key = "sk-proj-Ab3dE7gH1jKlM9nOpQ2r"
    redactor = Redactor({"OPENAI_API_KEY": key}, formats=False)
    stream, text = StreamRedactor(redactor), f"{before}{key} and more"
    shown = "".join(stream.feed(text[at : at + pieces]) for at in range(0, len(text), pieces)) + stream.finish()
    assert shown == redactor.own(text) and key not in shown and "redacted: OPENAI_API_KEY" in shown
