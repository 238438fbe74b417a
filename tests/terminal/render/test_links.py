"""These tests cover links: only checked targets, honest words, and no control byte but our own."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from ikigai.core.views.transcript import Speaker, TranscriptBlock
from ikigai.terminal.output.entries import Entries
from ikigai.terminal.render import blocks as render
from ikigai.terminal.render import links
from ikigai.terminal.render.markdown import render as drawn
from ikigai.terminal.render.theme import Theme, strip_styles
from tests.terminal.test_foreign import HOSTILE, OBEYED

LINK = re.compile(r"\x1b\]8;id=[0-9a-f]{8};([!-~]+)\x1b\\((?:\x1b\[[\d;]*m|[^\x1b])*)\x1b\]8;;\x1b\\")
STYLE = re.compile(r"\x1b\[[\d;]*m")


def targets(text: str, width: int = 100) -> list[tuple[str, str]]:
    """Return the links in it as they are drawn: words and target."""
    return [(strip_styles(words), target) for target, words in LINK.findall(drawn(text, width, color=True, links=True))]


@pytest.mark.parametrize(
    "target",
    [
        "http://a",
        "HTTPS://Example.org/",
        "https://example.org:8443/a%20b/c?d=e;f&g=@h#i",
        "https://xn--bcher-kva.example/",
        "http://[::1]:80/x",
        "http://127.0.0.1/",
        "mailto:some.body+tag@example.org",
    ],
)
def test_safe_targets_become_links(target: str):
    assert links.is_safe_target(target)


@pytest.mark.parametrize(
    "target",
    [
        *("", "http://", "https:///x", "//example.org", "example.org", "/x", "#x", "ftp://a/b", "file:///etc/passwd"),
        *("javascript:alert(1)", "data:text/html,x", "ssh://a", "x-man-page://ls", "vscode://file/x", "tel:1"),
        *("https://good.example@evil.example/", "https://user:pass@evil.example", "http://a\\@b/", "https://a\\b"),
        *("https://a/b c", "https://a/\x1b]0;x\x07", "https://a/\x07", "https://a\n", "https://a/\u202eb", "https://é"),
        *("https://a/\U000e0041", "https://a/\x9c", "https://a..b/", "https://-a/", "https://a:123456/", "https://a b"),
        *(
            "mailto:a@b?bcc=c@d",
            "mailto:a@b,c@d",
            "mailto:a%0ab@c",
            "mailto:",
            "https://a/" + "x" * links.MAX_TARGET_CHARACTERS,
        ),
    ],
)
def test_unsafe_targets_become_no_links(target: str):
    assert not links.is_safe_target(target)
    assert all(links.is_safe_target(found) and found != target for _, found in targets(f"[words]({target})"))


@given(st.text(max_size=40), st.sampled_from(["http://", "https://", "mailto:", "https://a/", ""]))
def test_link_target_is_one_ascii_word_with_its_own_host(text: str, scheme: str):
    target = scheme + text
    if links.is_safe_target(target):
        assert re.fullmatch(r"[!-~]+", target) and "\\" not in target
        host = re.split(r"[/?#]", target.removeprefix(scheme if scheme != "https://a/" else "https://"))[0]
        assert "@" not in host or target.lower().startswith("mailto:")


@pytest.mark.parametrize(
    ("words", "target", "honest"),
    [
        ("the docs", "https://evil.example/", True),
        ("Python 3.11", "https://python.example/", True),
        ("https://a.example/x", "https://a.example/x", True),
        ("a.example", "https://a.example/", True),
        ("me@a.example", "mailto:me@a.example", True),
        ("https://bank.example", "https://evil.example", False),
        ("http://a.example", "https://a.example", False),
        ("bank.example", "https://evil.example", False),
        ("bank。example", "https://evil.example", False),
        ("bank․example/login", "https://evil.example", False),
        ("127.0.0.1", "https://evil.example", False),
        ("localhost:8080", "https://evil.example", False),
        ("you@bank.example", "mailto:me@evil.example", False),
        ("www", "https://evil.example", False),
        ("the docs", "https://xn--80ak6aa92e.example/", False),
        ("  ", "https://evil.example", False),
    ],
)
def test_words_that_look_like_an_address_do_not_hide_another(words: str, target: str, honest: bool):
    assert links.is_honest_link(words, target) is honest
    if words.strip():
        assert (
            f"({target})" in strip_styles(drawn(f"[{words}](<{target}>)", 100, color=True, links=True))
        ) is not honest


def test_links_are_drawn_with_their_targets():
    text = "[the *docs*](https://a.example/x) [a.example](https://b.example) [f](/e) <https://c.example> [![i](j)](https://d)"
    assert strip_styles(drawn(text, 200, color=True, links=True)) == (
        "the docs a.example (https://b.example) f (/e) https://c.example [image: i] (j)\n"
    )
    assert targets(text) == [
        *(("the ", "https://a.example/x"), ("docs", "https://a.example/x"), ("a.example", "https://b.example")),
        *(("https://c.example", "https://c.example"), ("[image: i] (j)", "https://d")),
    ]
    assert drawn("[a](https://b)", 80, color=False, links=True).startswith("\x1b]8;id=")
    assert drawn("[a](https://b)", 80, color=True) == "\x1b[4ma\x1b[0m (https://b)\n"


def test_link_works_over_several_rows_and_in_every_block():
    rows = drawn("[" + "word " * 20 + "](https://a.example)", 30, color=False, links=True).splitlines()
    assert len(rows) == 4 and len({row[:14] for row in rows if LINK.match(row)}) == 1
    for text in ("# [a](https://b)", "- [a](https://b)", "> [a](https://b)", "| [a](https://b) |\n|---|\n| c |"):
        assert targets(text) == [("a", "https://b")], text


MARKDOWN = st.lists(
    st.one_of(
        st.text(max_size=8),
        st.sampled_from(
            ["[", "](", ")", "<", ">", "https://a.example/", "mailto:a@b.example", "![", "**", "`", "\n\n", "|"]
        ),
        st.sampled_from(
            [HOSTILE, "\x1b]8;;https://x\x1b\\", "\x1b\\", "\x07", "\x9c", "&#27;]8;;", "\u202e", "%1b", ";"]
        ),
    ),
    max_size=25,
).map("".join)


@given(MARKDOWN, st.integers(10, 90), st.booleans())
def test_links_write_only_our_own_sequences(text: str, width: int, color: bool):
    made = drawn(text, width, color=color, links=True)
    for target, _ in LINK.findall(made):
        assert links.is_safe_target(target)
    assert not OBEYED.search(STYLE.sub("", LINK.sub(lambda found: found[2], made)).replace("\n", ""))
    assert [strip_styles(row) for row in made.split("\n")] == STYLE.sub("", LINK.sub(lambda m: m[2], made)).split("\n")
    assert (
        "```" in text or "    " in text or "\t" in text or max(map(cell_len, strip_styles(made).split("\n"))) <= width
    )


def test_links_hide_nothing_out_of_the_context_and_in_the_history():
    theme = Theme()
    gone = TranscriptBlock(1, Speaker.ASSISTANT, "[a](https://b)", remembered=False)
    assert render.draw_block(gone, 80, theme, links=True) == "\x1b[2m● a (https://b)\x1b[0m"
    entries = Entries(theme, "fold")
    here = TranscriptBlock(1, Speaker.ASSISTANT, "[a](https://b)")
    (plain,) = (entry.text for entry in entries.draw(here, 80))
    entries.links = True
    (linked,) = (entry.text for entry in entries.draw(here, 80))
    assert strip_styles(plain) == "● a (https://b)" and strip_styles(linked) == "● a" and LINK.search(linked)
