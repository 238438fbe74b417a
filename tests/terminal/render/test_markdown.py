"""These tests stream Markdown: cuts anywhere give the same blocks, drawn as in the whole text, with linear work."""

import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.cells import cell_len

from ikigai.core.text.sanitize import clean
from ikigai.terminal.render.markdown import MarkdownStream, render

DOCUMENTS = {
    "paragraphs": "One *line*\nand another.\n\n\n\nTwo **bold**.\n   \nThree",
    "headings": "# One\n## Two ##\nText\n### Three\n\nSetext\n===\nLong\nsetext\n---\n#no heading\n",
    "setext or rule": "Para\n---\n\n---\n- - -\n***\nPara\n***\nEnd\n",
    "tight list": "Intro:\n- a\n- b\n  - c\n    - d\n- e\n\nOutro\n",
    "loose list": "1. a\n\n2. b\n\n   more b\n\n3. c\n\nOutro\n",
    "list then list": "- a\n- b\n* c\n+ d\n1. e\n2) f\n",
    "list with lazy lines": "- a\nlazy\n  - b\nlazy too\n\n  still a\n\n out\n",
    "list with everything": (
        "1. text\n\n   ```py\n   x = 1\n\n   y = 2\n   ```\n   > quote\n"
        "   | a | b |\n   |---|---|\n   | 1 | 2 |\n\n       code\n2. b\n"
    ),
    "items without text": "-\n- a\n-\n\n  b\n\n-\n\n\nc\n",
    "task list": "- [ ] open\n- [x] done\n",
    "fence": "Before\n```python\ndef f():\n\n\n    return '''\n- no list\n# no heading\n'''\n```\nAfter\n",
    "fences in fences": "````md\n```py\nx\n```\n````\n~~~\n```\n~~~\n   ```\n   x\n  ```\n",
    "fence closed by a longer one": "```\nx\n`````\nAfter\n\n~~~~ ~~~\n~~~\n~~~~~ \n- a\n",
    "fence that only looks closed": "```\n    ```\n``` x\n~~~\n``\n```  \nAfter\n",
    "unclosed fence": "Text\n```js\nlet a = 1\n\n\nlet b = 2\n",
    "fence in a list": "- ```\n  a\n\n  b\n  ```\n- ```\n  open\nout\n",
    "no fence at all": "``` a ` b\nText\n``code`` ```\n",
    "indented code": "Text\n\n    code\n\n\n    more code\n\tand a tab\n\nText\n    lazy\n",
    "quotes": "> a\n> b\nlazy\n\n> c\n>\n> - d\n>   > e\n> ```\n> x\n\nout\n>f\n# g\n",
    "quote then paragraph": "> # head\ntext\n> ```\n> code\ntext\n",
    "table": "Lead\n| a | b |\n|---|:-:|\n| 1 | 2 |\n| `x` | **y** |\nz | \\| |\n\nText\n",
    "table that is none": "| a | b |\n|---|\n| c |\n\na | b\n--|--\n",
    "table ended by a block": "| a |\n|---|\n| 1 |\n> q\n\n| a |\n|---|\n# h\n",
    "html": "<div>\n*not em*\n\n*em*\n</div>\nText <b>inline</b><br>line\n\n<x-y>\n\nText\n<x-y>\nend\n",
    "html with blank lines": "<!-- a\n\n- b\n\n-->\nText\n<script>\n\nvar x\n\n</script>\n\n<?php\n\n# no\n\n?>\nEnd\n",
    "unclosed html": "Text\n\n<!-- never\n\nclosed\n\n# at all\n",
    "definitions": "[a]: http://a.example\n[b]:\n  http://b.example\n  'with\n  title'\n\n[A] and [b] and [c]\n\n[a]: http://late.example\n",
    "a definition's title over several lines": "# h\n[a]: /url\n'ti\ntle'\n[a]\n\n[b]: /url\n'ti\n\ntle'\n",
    "a definition that ends a list": "- [a]: /url\n'ti\ntle'\n\n> [b]: /url\n'ti\n# le'\n\n[a] [b]\n",
    # What comes first looks finished, until the last line makes it part of a definition's title.
    "a title in a list": "- [a]: /url\n'ti\n<x>\ntle'\n\n[a]\n",
    "a title in a quote": "> [a]: /url\n'ti\n<x>\ntle'\n\n[a]\n",
    "a title in two quotes": "> [a]: /url\n'ti\n> x\n<x>\ntle'\n\n[a]\n",
    "a title like a heading": "[a]: /url\n'ti\n===\ntle'\n\n- [b]: /url\n'ti\n===\ntle'\n\n[a] [b]\n",
    "a title like a table": "- [a]: /url\n'ti | x\n--|--\n    y\n<x>\ntle'\n\n[a]\n",
    "a title like code": "[a]: /url\n    'ti\n<x>\ntle'\n\n[a]\n",
    "a label like a heading": "[a\n===\nb]: /url\n\n[a === b]\n",
    "only definitions": "[a]: /url\n\n[b]: /url\n",
    "breaks": "a  \nb\\\nc\nd\n\n\\# no heading\n1\\. no list\n",
    "wide": (
        "# 日本語の見出し\n\n- 項目 👩\u200d💻 e\u0301\n- 🇭🇺 한국어\n\n"
        "| 列 | 😀 |\n|---|---|\n| 値 | ✅ |\n\n```\n全角のコード\n```\n"
    ),
    "control characters": "a\x1b[31mb\x1b]0;t\x07\r\n\r\n# c\rd\x00\n\n```\n\x1b[2J\n```\n&#27;[31m &#x202e;&rlm;\n",
    "entities": "&amp; &lt;b&gt; &copy; &#42;not em&#42; &nosuch;\n",
    "links": "[a *b*](http://x.example 't') <http://y.example> ![alt *x*](i) [](/e) [s](s)\n\n- <me@x.example>\n",
    "blank": "\n \n\t\n",
    "empty": "",
    "no line end": "- a\n- b",
    "rule at the end": "Text\n\n***",
    "crlf": "# h\r\n\r\n- a\r\n- b\r\n\r\n```\r\nx\r\n```\r\n",
}
# A definition that comes after its use is unknown when the block that uses it is drawn: no streaming can do better.
FORWARD = "See [a].\n\n[a]: http://a.example\n"

LINES = [
    *(
        "",
        "",
        "",
        "  ",
        "para",
        "more",
        "- a",
        "  - b",
        "  cont",
        "   three",
        "    code",
        "\tcode",
        "1. one",
        "10) x",
        "* s",
    ),
    *(
        "> q",
        ">",
        "> - a",
        "> ```",
        "> # h",
        "```",
        "```py",
        "~~~",
        "   ```",
        "    ```",
        "````",
        "# H",
        "---",
        "===",
        "***",
    ),
    *(
        "| a | b |",
        "|---|---|",
        "a | b",
        "--|--",
        "[f]: /u",
        "[f]: /u 'ti",
        "[f]:",
        "/u",
        "'title'",
        "'ti",
        "le'",
        "[f] x",
    ),
    *(
        "> [f]: /u",
        "- [f]: /u",
        "<div>",
        "</div>",
        "<!--",
        "-->",
        "<x-y>",
        "<script>",
        "</script>",
        "<?",
        "?>",
        "- ",
        "-",
    ),
    *("- # h", "- ```", "text  ", "*em", "em*", "\\", "'a | b'", "- | a |", "  |---|", "   1. z", "#", "|", "日本語"),
]
DEFINITIONS = [
    *("[f]: /u", "- [f]: /u", "> [f]: /u", "[f", "f]: /u", "[f]:", "/u", "'ti", "'a | b", "    'ti", "le'"),
    *("<x>", "===", "a | b", "--|--", "    code", "# h", "- # h", "> x", "- x", "> ```", "- ```", "<div>", "2. x", ""),
]
documents = (
    st.lists(st.sampled_from(LINES), max_size=14) | st.lists(st.sampled_from(DEFINITIONS), min_size=2, max_size=8)
).map("\n".join)
cuttings = st.lists(st.integers(0, 200), max_size=8)

MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def pieces(text: str, cuts: list[int]) -> list[str]:
    bounds = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [text[a:b] for a, b in pairwise(bounds)]


def every(size: int, text: str) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def stream(deltas: list[str]) -> list[str]:
    """Return the blocks, taken as soon as they are there."""
    blocks: list[str] = []
    streaming = MarkdownStream()
    for delta in deltas:
        streaming.feed(delta)
        blocks += streaming.take()
    streaming.finish()
    return blocks + streaming.take()


def whole(text: str) -> list[str]:
    """Return the blocks by CommonMark: one parse of the whole text, cut where a top-level block ends."""
    lines = clean(text).split("\n")
    blocks, start = [], 0
    for token in MARKDOWN.parse(clean(text)):
        if token.level == 0 and token.map:
            end = token.map[1]
            while not lines[end - 1].strip(" \t"):
                end -= 1
            blocks.append("".join(line + "\n" for line in lines[start:end]))
            start = end
    rest = "\n".join(lines[start:]).rstrip("\n")
    return [*blocks, rest + "\n"] if rest else blocks


def content(tokens: list, line: int = 0) -> list[tuple]:
    """Return the meaning of tokens, with `line` as their first; blank lines at the end of an open block are ignored."""
    return [
        (token.type, token.level, token.markup, token.info, token.hidden, token.content.rstrip(), token.attrs)
        + ((token.map[0] + line,) if token.map else ())
        + ((tuple(content(token.children)),) if token.children else ())
        for token in tokens
    ]


def check(text: str, deltas: list[str]) -> None:
    blocks = stream(deltas)
    assert blocks == whole(text)
    assert "".join(blocks).rstrip() == clean(text).rstrip()
    # All definitions are known from the start, so that only the cutting is compared; see FORWARD.
    env: dict = {}
    tokens = MARKDOWN.parse(clean(text), env)
    if "references" in env:
        tokens = MARKDOWN.parse(clean(text), {"references": dict(env["references"])})
    apart, line = [], 0
    for block in blocks:
        apart += content(MARKDOWN.parse(block, {"references": dict(env.get("references", {}))}), line)
        line += block.count("\n")
    assert apart == content(tokens)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_blocks_are_those_of_the_whole_however_it_comes(name: str):
    text = DOCUMENTS[name]
    check(text, [text])
    for size in (1, 2, 3, 7, 16):
        check(text, every(size, text))


@given(st.sampled_from(sorted(DOCUMENTS)), cuttings)
def test_documents_cut_anywhere(name: str, cuts: list[int]):
    check(DOCUMENTS[name], pieces(DOCUMENTS[name], cuts))


@given(documents, cuttings)
def test_random_documents_cut_anywhere(text: str, cuts: list[int]):
    check(text, pieces(text, cuts))
    check(text, every(1, text))


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize(("width", "color"), [(20, False), (72, True), (3, False)])
def test_drawn_block_by_block_it_looks_as_drawn_at_once(name: str, width: int, color: bool):
    text = DOCUMENTS[name]
    references: dict = {}
    drawn = [render(block, width, color=color, references=references) for block in stream(every(4, text))]
    assert "\n".join(filter(None, drawn)) == render(text, width, color=color)


def test_definition_is_unknown_to_blocks_before_it():
    blocks = stream([FORWARD])
    references: dict = {}
    assert [render(block, 40, color=False, references=references) for block in blocks] == ["See [a].\n", ""]
    assert render(FORWARD, 40, color=False) == "See a (http://a.example).\n"
    assert render("Now [a].", 40, color=False, references=references) == "Now a (http://a.example).\n"


@pytest.mark.parametrize(
    ("came", "finished"),
    [
        ("Para\n", []),
        ("Para\n\n", ["Para\n"]),
        ("Para:\n```py\n", ["Para:\n"]),
        ("Para:\n- a\n", ["Para:\n"]),
        ("# Head\n", ["# Head\n"]),
        ("Head\n---\n", []),
        ("Head\n---\n\n", ["Head\n---\n"]),
        ("```\na\n\n# b\n\n- c\n", []),
        ("```\na\n\n# b\n\n- c\n```", []),
        ("```\na\n\n# b\n\n- c\n```\n", ["```\na\n\n# b\n\n- c\n```\n"]),
        ("~~~ x\na\n~~~~~ \n", ["~~~ x\na\n~~~~~ \n"]),
        ("- a\n- b\n\n", []),
        ("- a\n- b\n\nPara\n", ["- a\n- b\n"]),
        ("| a |\n|---|\n| 1 |\n", []),
        ("| a |\n|---|\n| 1 |\n\n", ["| a |\n|---|\n| 1 |\n"]),
        ("> a\n\n", ["> a\n"]),
        ("- [a]: /url\n'ti\n", []),
    ],
)
def test_block_is_finished_with_the_line_that_ends_it(came: str, finished: list[str]):
    streaming = MarkdownStream()
    for char in came:
        streaming.feed(char)
    assert streaming.take() == finished


def test_text_is_shown_as_written_when_the_parser_fails(monkeypatch: pytest.MonkeyPatch):
    """Check that a reply is not lost by an error in the library that reads its marks."""

    def failing(*_: object) -> None:
        raise IndexError

    monkeypatch.setattr(MarkdownIt("commonmark").block.__class__, "parse", failing)
    stream, text = MarkdownStream(), "# One\n\n- two\n\nthree\n"
    stream.feed(text)
    assert stream.take() == [] and stream.tail(20, 9)[-1] == "three"
    stream.finish()
    assert "".join(stream.take()) == text


def test_blocks_are_taken_only_when_saved():
    streaming = MarkdownStream()
    streaming.feed("One\n\nTw")
    assert streaming.fed == 7
    streaming.feed("o\n\nThree")
    assert streaming.take(6) == []
    assert streaming.tail(40, 9) == ["One", "", "Two", "", "Three"]
    assert streaming.take(7) == ["One\n"]
    assert streaming.take(7) == []
    assert streaming.tail(40, 9) == ["Two", "", "Three"]
    assert streaming.take() == ["\nTwo\n"]
    assert streaming.tail(40, 9) == ["Three"]
    streaming.finish()
    assert streaming.take() == ["\nThree\n"]
    assert streaming.tail(40, 9) == []


LONG = {
    "code": "```py\n" + "x = 1\n\n" * 3000 + "```\n",
    "unclosed code": "```\n" + "x\n" * 3000,
    "tight list": "- an item of a list\n" * 3000,
    "loose list": "1. an item\n\n   and more\n\n" * 1500,
    "list of headings": "- # a\n\n  # b\n\n" * 1500,
    "table": "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 3000,
    "quote": "> a\n>\n> # b\n" * 1500,
    "paragraph": "some words in a line\n" * 3000,
    "paragraph that looks like more": "*\n1. x\n" * 10 + "2. x\n" * 3000,
    "one line": "word " * 5000,
    "html": "<!--\n" + "a\n\n# b\n" * 1500,
    "indented code": "    a\n\n" * 3000,
    "definitions": "".join(f"[a{n}]: /url\n\n" for n in range(1500)),
    "definition titles": "- [a]: /u\n'ti\n" + "<x>\n# \n" * 1000,
    "small blocks": "# a\n\nb\n\n- c\n\n> d\n\n" * 800,
}


@pytest.mark.ordinary("tight list", "table", "html", "definition titles", "small blocks")
@pytest.mark.parametrize("name", LONG)
def test_parser_reads_each_character_a_few_times_at_most(name: str):
    text = LONG[name]
    streaming = MarkdownStream()
    for delta in every(4, text):
        streaming.feed(delta)
        assert streaming.parsed <= 2 * streaming.fed
    streaming.finish()
    assert streaming.parsed <= 3 * len(text)
    assert "".join(streaming.take()).rstrip() == text.rstrip()


def test_code_is_not_parsed_while_it_comes():
    streaming = MarkdownStream()
    streaming.feed("```py\n")
    before = streaming.parsed
    for _ in range(50_000):
        streaming.feed("x = 1\n\n")
    assert streaming.parsed == before
    streaming.feed("```\n")
    assert len(streaming.take()) == 1


@given(documents, cuttings, st.integers(2, 30), st.integers(0, 12))
def test_tail_is_the_end_of_the_blocks_not_taken(text: str, cuts: list[int], width: int, rows: int):
    streaming = MarkdownStream()
    for piece in pieces(text, cuts):
        streaming.feed(piece)
    taken = "".join(streaming.take())
    tail = streaming.tail(width, rows)
    assert len(tail) <= rows
    assert all(cell_len(row) <= width for row in tail)
    rest = "".join(text[len(taken) :].split())  # rows break at spaces, which then go
    assert rest.endswith("".join("".join(tail).split()))
    assert "".join("".join(streaming.tail(width, 10_000)).split()) == rest


def test_rows_of_the_tail_break_between_words_and_do_not_move():
    streaming = MarkdownStream()
    rows: list[str] = []
    for number in range(40):
        streaming.feed(f"word{number} ")
        tail = streaming.tail(30, 30)
        assert all(word.startswith("word") for row in tail for word in row.split())
        assert tail[: len(rows) - 1] == rows[:-1]
        rows = tail


@pytest.mark.parametrize("char", ["x", "字", "é", "👍"])
def test_tail_of_a_very_long_line_is_its_end(char: str):
    streaming = MarkdownStream()
    streaming.feed(char * 10_000 + "end")
    tail = streaming.tail(20, 3)
    assert len(tail) == 3
    assert "".join(tail).endswith("end")
    assert set("".join(tail)) == {char, *"end"}
    assert all(cell_len(row) in (19, 20) for row in tail[:-1])


def test_tail_is_sanitized_and_drops_nothing_from_view():
    streaming = MarkdownStream()
    streaming.feed("a\x1b[31mb\x1b]0;tit")
    assert streaming.tail(40, 3) == ["ab"]
    streaming.feed("le\x07\u202ec")
    assert streaming.tail(40, 3) == ["ab<U+202E>c"]


LOOK = """\
# Head *one*

Text with **bold**, `code`, [link](http://x.example) and \\
Vec<T>.
1. first

   more of it
   - sub
10. second

> quoted
>
> words

| a | b |
|---|--:|
| 1 | 字 |

```py
def f():
\treturn "a line of code longer than the screen"
```
***
<div>
</div>
"""

LOOKS = """\
Head one

Text with bold, code, link
(http://x.example) and
Vec<T>.

 1. first

    more of it
     • sub
 2. second

▌ quoted
▌
▌ words

a    b
──────
1   字

── py ──────────────────
def f():
    return "a line of code longer than the screen"
────────────────────────

────────────────────

<div>
</div>
"""


def test_markdown_is_drawn_as_expected():
    assert render(LOOK, 30, color=False) == LOOKS
    colored = render(LOOK, 30, color=True)
    assert re.sub(r"\x1b\[[\d;]*m", "", colored) == LOOKS
    assert "\x1b[36mcode\x1b[0m" in colored
    assert "\x1b[35mdef\x1b[0m" in colored


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("width", [20, 40, 100])
def test_drawn_text_is_safe_narrow_and_complete(name: str, width: int):
    text = DOCUMENTS[name]
    drawn = render(text, width, color=True)
    # Our own escape sequences choose styles from the sixteen colors, and never a background.
    styles = re.findall(r"\x1b\[([\d;]*)m", drawn)
    assert all(
        code in {"0", "1", "2", "3", "4", "9"} or code in map(str, range(30, 38))
        for s in styles
        for code in s.split(";")
    )
    plain = re.sub(r"\x1b\[[\d;]*m", "", drawn)
    assert plain == render(text, width, color=False)
    assert clean(plain) == plain
    code = any(token.type in ("fence", "code_block") for token in MARKDOWN.parse(clean(text)))
    for line in plain.split("\n"):
        assert line == line.rstrip(" ")
        assert code or cell_len(line) <= width
    # Every letter arrives, but for definitions, titles, entities, info strings and what a table has no column for.
    if not re.search(r"\]:|'t'|&|```\w|<br>", text):
        assert not Counter(re.sub(r"\W", "", clean(text))) - Counter(re.sub(r"\W", "", plain) + re.sub(r"\D", "", text))


def test_entities_cannot_bring_in_control_characters():
    drawn = render(
        "a &#27;[31m &#x9b;2J &#x202e;b &rlm; `&#x202e;` [x](http://&#x202e;y) ![&#x2066;](&#x202e;)", 200, color=False
    )
    assert clean(drawn) == drawn
    assert "<U+202E>b" in drawn


def test_link_shows_its_target():
    drawn = render(
        "[http://good.example](http://bad.example) <http://plain.example> [bold **x**](/y)", 100, color=False
    )
    assert drawn == "http://good.example (http://bad.example) http://plain.example bold x (/y)\n"
    assert "\x1b]" not in render("[a](http://b.example)", 100, color=True)


def test_markup_of_rich_is_text():
    assert (
        render("[bold]x[/bold] [link=http://x]y[/link] :smile:", 60, color=True)
        == "[bold]x[/bold] [link=http://x]y[/link] :smile:\n"
    )


@pytest.mark.ordinary("20-3", "20-20", "20-21", "20-60", "400-21")
@pytest.mark.parametrize("depth", [1, 3, 19, 20, 21, 22, 60, 120])
@pytest.mark.parametrize("width", [20, 400])
def test_lists_and_quotes_too_deep_to_indent_are_shown_as_written(depth: int, width: int):
    for text in (
        "".join(f"{'  ' * level}- x{level}\n" for level in range(depth)) + "\nafter\n",
        "> " * depth + "deep\n\nafter\n",
        "".join("> " * level + f"- x{level}\n" + "> " * level + "\n" for level in range(depth)) + "\nafter\n",
    ):
        drawn = render(text, width, color=False)
        assert not Counter(re.findall(r"\w+", text)) - Counter(re.findall(r"\w+", drawn))
        assert drawn == "\n".join(filter(None, (render(block, width, color=False) for block in stream([text]))))


def test_empty_list_item_keeps_its_marker():
    assert render("1. a\n2.\n3. c\n\n-\n- b\n", 20, color=False) == " 1. a\n 2.\n 3. c\n\n •\n • b\n"


def test_table_with_too_many_columns_becomes_a_list():
    row = "|".join(f"c{n}" for n in range(9))
    text = f"{row}\n{'|'.join('-' * 9)}\n{row.replace('c', 'v')}\n{row.replace('c', 'w')}\n"
    drawn = render(text, 20, color=False).split("\n")
    assert drawn == [*(f"c{n}: v{n}" for n in range(9)), "", *(f"c{n}: w{n}" for n in range(9)), ""]


def test_code_of_any_language_and_size_keeps_its_lines():
    code = "x = [1,  2]  # 'é字'\n    y\n\nz"
    languages = {"python": "python", "Python": "Python", "no-such-language": "", "{.py}": "", "&#27;[2J": "", "": ""}
    for language, named in {**languages, "mermaid title='x'": "mermaid"}.items():
        above, drawn = render(f"```{language}\n{code}\n```", 20, color=False).split("\n", 1)
        assert drawn == f"{code}\n{'─' * 20}\n" and len(above) == 20
        assert above.strip("─ ") == named
    big = "key = value\n" * 20_000
    assert big in render(f"```ini\n{big}```", 20, color=True)


def test_markdown_module_is_imported_without_rich():
    code = "import sys, ikigai.terminal.render.markdown; "
    code += "print(sorted({'rich', 'markdown_it', 'pygments'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
