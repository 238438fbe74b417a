"""These tests compare replies drawn without a parser with Markdown; Markdown is never taken for plain."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikigai.terminal.render import blocks as render
from ikigai.terminal.render import plain_paragraphs as unmarked
from ikigai.terminal.render.markdown import MarkdownStream
from ikigai.terminal.render.theme import Theme

SIGNS = "abc019.,:;?!-=+()/%@\"'éőж“—…"
words = st.text(alphabet=SIGNS, min_size=1, max_size=14)
lines = st.lists(words, min_size=1, max_size=12).map(" ".join)
plainly = st.builds(lambda between, found: between.join(found), st.sampled_from(["\n", "\n\n"]), st.lists(lines))
texts = st.one_of(plainly, st.text(alphabet="ab Z09 .-=+()1'—#*_>`|\n\n", max_size=60), st.text(max_size=40))


def parsed(text: str, width: int, theme: Theme) -> str:
    stream, voice = MarkdownStream(), render.ReplyContext()
    stream.feed(text)
    stream.finish()
    return "\n\n".join(filter(None, (render.draw_piece(source, voice, width, theme) for source in stream.take())))


@given(texts, st.integers(15, 60))
def test_plain_reply_looks_as_drawn_by_markdown(text: str, width: int):
    for theme in (Theme(), Theme(plain=True)):
        assert render.draw_reply(text, width, theme) == parsed(text, width, theme)


@pytest.mark.parametrize(
    "text",
    [
        "Yes.",
        "It is so: 3.5 of 7 (half), isn't it?\nThe next line, “quoted” — and on…\n\nA paragraph.\n",
        "Szervusztok, árvíztűrő tükörfúrógép! Привет",
        "1986 was long ago.",
        "a=b+c/d-e 100% me@example.org",
    ],
)
def test_plain_paragraphs_are(text: str):
    assert unmarked.is_plain(text, 60)
    assert render.draw_reply(text, 60, Theme()) == parsed(text, 60, Theme())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1986. A great year",
        "2) second",
        "- item",
        "+ item",
        "# head",
        "head\n===",
        "head\n---",
        "> said",
        "a *word*",
        "a `word`",
        "a_b_",
        "[a](b)",
        "<br>",
        "&amp;",
        "a\\b",
        "~~a~~",
        "a | b",
        "    code",
        "two  blanks",
        "at the end ",
        "a\n\n\nb",
        "日本語",
        "e\u0301",
        "a\u00adb",
        "a\u200bb",
        "x" * 61,
    ],
)
def test_text_with_markup_or_other_wrapping_is_not_plain(text: str):
    assert not unmarked.is_plain(text, 60)


def test_plain_reply_loads_no_markdown_renderer():
    program = "import sys\nfrom ikigai.terminal.render import blocks as render\n"
    program += "from ikigai.terminal.render.theme import Theme\n"
    program += "print(render.draw_reply('Good-bye. Szervusztok', 60, Theme(plain=True)))\n"
    program += "print(sorted({'rich', 'markdown_it', 'pygments'} & {*sys.modules}))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "● Good-bye. Szervusztok\n[]\n"
