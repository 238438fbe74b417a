"""Markdown and HTML hold everything that was said, and none of it gets out of its place."""

import json
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ikigai.core.events import codec
from ikigai.core.events import events as ev
from ikigai.core.events.messages import Citation, Image, StopReason, Text, Thinking, ToolCall, ToolResult
from ikigai.core.relocation.renumber import RawRow
from ikigai.export import html, markdown_export
from ikigai.export.json_export import ExportInfo

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
EVENTS: tuple[ev.Event, ...] = (
    ev.SettingsChanged({"model": "a/b"}, {"model": "config.toml"}),
    ev.UserMessage("What is **this**?\n\nA second line.", (Image("image/png", PIXEL, 1, 1, "pixel.png"),)),
    ev.AssistantMessage((Thinking("I should look."), Text("# A heading\n\nSome `code`, a [link](https://example.org/)."))),
    ToolCall("c1", "shell", json.dumps({"command": "ls -la"})),
    ev.ApprovalDecided("c1", True, "user"),
    ev.ToolStarted("c1"),
    ToolResult("c1", "one\ntwo\nthree"),
    ToolCall("c2", "shell", "{}", "[broken"),
    ToolResult("c2", "no such thing", is_error=True),
    ev.AssistantMessage((Text("| a | b |\n|---|---|\n| 1 | 2 |"),), StopReason.LENGTH),
    ev.TurnEnded(ev.Ending.FAILED, "The provider gave up.", 2),
    ev.Marked("here"),
    ev.UserMessage("again"),
    ev.AssistantMessage((Text("yes"),)),
    ev.TurnEnded(ev.Ending.COMPLETED, "", 13),
)  # fmt: skip


def raws(*events: ev.Event) -> list[RawRow]:
    return [RawRow(n, "a", n, 1_700_000_000.0 + n, *codec.encode(event)) for n, event in enumerate(events, start=1)]


def page(form: html.HtmlExport | markdown_export.MarkdownExport, rows: list[RawRow], name: str = "amber-fox") -> str:
    about = ExportInfo(name, 0, None, len(rows), 1_700_000_099.0)
    return "".join([*form.begin(about), *(part for row in rows for part in form.rows([row])), *form.end()])


class Looked(HTMLParser):
    """The content of a page as a browser finds it; it is sound: every tag is closed, and in order."""

    VOID = ("meta", "img", "br", "hr")

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.pre: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "pre":
            self.pre.append("")

    def handle_endtag(self, tag: str) -> None:
        assert tag in self.VOID or self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data
        if "pre" in self.open:
            self.pre[-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for found, attributes in self.tags if found == tag]


OWN_TAGS = re.compile(
    "html|head|meta|title|style|body|main|header|h[1-6]|p|section|article|a|time|img|details|summary|pre|nav|ol|li|"
    "ul|code|em|strong|s|blockquote|hr|br|table|thead|tbody|tr|th|td"
)


def sound(text: str) -> Looked:
    """Return the page; check that nothing in it runs, is fetched, or leads where it must not."""
    assert text.startswith("<!doctype html>") and "\x1b" not in text
    found = Looked(text)
    assert all(OWN_TAGS.fullmatch(tag) for tag, _ in found.tags)
    for tag, attributes in found.tags:
        assert set(attributes) <= {
            "lang", "charset", "http-equiv", "content", "name", "id", "class", "href", "rel", "src", "alt", "datetime",
            "open", "title", "style", "start",
        }, (tag, attributes)  # fmt: skip
        assert re.fullmatch("(?:text-align:(?:left|right|center))?", attributes.get("style") or "")
        assert re.match("#|https?://|mailto:", attributes.get("href") or "#", re.IGNORECASE), attributes
        assert (attributes.get("src") or "data:image/").startswith("data:image/")
    ids = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {attributes["href"] for attributes in found.all("a") if attributes["href"] in ids} == set()
    return found


def test_html_page() -> None:
    text = page(html.HtmlExport(), raws(*EVENTS))
    found = sound(text)
    assert found.words.count("What is **this**?") == 2, "in the outline, and as it was typed"
    for said in ("A heading", "I should look.", "ls -la", "one\ntwo\nthree", "no such thing", "The provider gave up.",
                 "Mark here set", "[broken", "length", "Model: a/b"):  # fmt: skip
        assert said in found.words, said
    assert [each["class"] for each in found.all("details")[:-1]] == [
        "thought", "call", "result", "call failed", "result failed",
    ]  # fmt: skip
    assert found.all("img") == [{"alt": "pixel.png", "src": f"data:image/png;base64,{PIXEL}"}]
    assert {"href": "https://example.org/", "rel": "noopener noreferrer nofollow"} in found.all("a")
    outline = [each["href"] for each in found.all("a") if (each["href"] or "").startswith("#turn-")]
    assert outline == ["#turn-1", "#turn-2"] == [f"#{each['id']}" for each in found.all("section")]
    assert "shell: one two three (3 lines)" in found.words and "prefers-color-scheme: dark" in text
    assert "default-src 'none'" in (found.all("meta")[1]["content"] or "")
    assert "<table>" in text and "<h1>A heading</h1>" in text


@pytest.mark.parametrize("form", [html.HtmlExport, markdown_export.MarkdownExport])
def test_summary_is_told_whole(form: type[html.HtmlExport | markdown_export.MarkdownExport]) -> None:
    text = page(form(), raws(ev.Summarized("Goal: move\nthe schema.", upto=1, turns=3, before=900, after=100)))
    assert "Condensed: 3 turns" in text and "Goal: move\nthe schema." in text and "the summary" in text


CITED = (
    Citation("https://example.org/a?b=1", "A *page*"),
    Citation("javascript:alert(1)", "<b>bad</b>"),
    Citation("https://example.org/x>y <z", "![p](q)"),
)


def test_cited_pages_are_links_only_where_they_are_safe() -> None:
    reply = ev.AssistantMessage((Text("Words.", CITED),))
    events = (ev.UserMessage("?"), reply, ev.TurnEnded(ev.Ending.COMPLETED))
    found = sound(page(html.HtmlExport(), raws(*events)))
    links = [each["href"] for each in found.all("a") if (each["href"] or "").startswith("http")]
    assert links == ["https://example.org/a?b=1"]
    assert "javascript:alert(1)" in found.words and "<b>bad</b>" in found.words
    text = page(markdown_export.MarkdownExport(), raws(*events))
    assert "1. A \\*page\\* <https://example.org/a?b=1>\n2. \\<b\\>bad\\</b\\> javascript:alert(1)\n" in text
    assert "<https://example.org/x" not in text and "\\!\\[p\\]" in text


def test_markdown_file() -> None:
    text = page(markdown_export.MarkdownExport(), raws(*EVENTS))
    assert text.startswith("# amber-fox\n\n15 events, exported ")
    assert re.search(
        r"\n## 1\. \\\[image pixel\.png, 1×1\\\] What is \\\*\\\*this\\\*\\\*\? A second line\.\n\n"
        r"\*20\d\d-\d\d-\d\d \d\d:\d\d, #2\*\n\n"
        r"> \[image pixel\.png, 1×1\]\n> What is \*\*this\*\*\?\n>\n> A second line\.\n",
        text,
    )
    assert "<details><summary>∴ I should look.</summary>\n\n```text\nI should look.\n```\n\n</details>\n" in text
    assert (
        '<summary>→ shell {&quot;command&quot;: &quot;ls -la&quot;}</summary>\n\n```json\n{"command": "ls -la"}' in text
    )
    assert "<summary>← shell: one two three (3 lines)</summary>\n\n```text\none\ntwo\nthree\n```\n" in text
    assert "<summary>✗ shell: no such thing</summary>" in text and "**✗ The provider gave up.**" in text
    assert "\n| a | b |\n|---|---|\n| 1 | 2 |\n" in text and "\n## 2. again\n" in text and text.endswith("\nyes\n")


HOSTILE = (
    "<script>alert(1)</script>",
    "</pre></details></section></main><script>alert(1)</script>",
    "x <img src=x onerror=alert(1)> y",
    "<!-- never closed",
    "<details><summary>trap</summary>",
    "</summary></details></blockquote>\n\n# out",
    "[a](javascript:alert(1)) [b](data:text/html,x) [c](vbscript:x) [d](file:///etc/passwd) [e]( JaVaScRiPt:x)",
    "![a](https://evil.example/track.png) [![b](javascript:x)](https://example.org)",
    "![a][r]\n\n[r]: https://evil.example/track.png",
    "[r]: https://evil.example/track.png\n\n![r] ![r][] ![a][r]",
    "| a |\n|---|\n| ![a](https://evil.example/track.png) |\n\n- > ![b ![c](http://e.org/c)](http://e.org/b)",
    "\\\\![a](https://evil.example/track.png) \\![b](c) `![d](e)` !\\[f](g)",
    "<javascript:alert(1)> <https://example.org/?a=\"onmouseover='x'>",
    "[a]: javascript:alert(1)\n\n[a]",
    "[x](https://e.org \"title\\\" onclick=\\\"alert(1)\")",
    "```js\nnever closed",
    "~~~~\nnever ``` closed",
    "```\" onmouseover=\"alert(1)\nx\n```",
    "````\n```\nnested\n```\n````\n```\n```````\n~~~",
    "> " * 300 + "deep",
    "- " * 200 + "deep",
    "[" * 500 + "x" + "](y)" * 500,
    "\x1b]0;title\x07\x1b[2J\u202eright to left\x9b31m",
    "&lt;script&gt; &#x3C;script&#x3E; &amp;",
    "<a href=\"javascript:alert(1)\">x</a>\n<style>*{display:none}</style>",
    "<?php ?> <![CDATA[ x ]]> <!DOCTYPE x>",
    "a\n\n    <script>indented</script>\n\n- <b>x</b>\n  <i>y",
    "<div>\n\n```\n\n</div>",
    "\\<b> `<b>` <b>",
    "x" * 50_000 + "<b>",
    "1. a\n\n   ```\n   open in a list",
    "\t<!--",
    "> - <!--\n>",
    "- <!--\n\t",
    "    <b>\n\n\t<!-- x",
    "a\n\n\t<b>\n \t<!--",
    "- a\n\n\t\t<!--\n\n   x\n\n\t <b>",
)  # fmt: skip


def conversation(text: str) -> list[RawRow]:
    """Return rows with the text in every place that can hold one, and behind them a question that must stay where it
    is.
    """
    return raws(
        ev.UserMessage(text, (Image(text[:80], text[:80], 1, 1, text[:80]), Image("image/png", '"><b>', 1, 1))),
        ev.AssistantMessage((Thinking(text), Text(text or " "))),
        ev.AssistantMessage((Text("- a\n  1. b"),)),
        ev.AssistantMessage((Text(text or " "),)),
        ToolCall("c", text[:200] or "t", json.dumps(text)),
        ToolCall("d", "t", "{}", text),
        ToolResult("c", text),
        ToolResult("d", text, is_error=True),
        ev.TurnEnded(ev.Ending.FAILED, text, 1),
        ev.Marked(text),
        ev.CommandRan("/x", text),
        ev.UserMessage("THE END"),
    )


def stays_in_its_place(text: str) -> None:
    rows = conversation(text)
    found = sound(page(html.HtmlExport(), rows, text[:60]))
    assert found.all("img") == [] and len(found.all("section")) == 2 and len(found.all("article")) <= 5
    assert "THE END" in found.words and found.tags[-1][0] == "a"
    said = [block for block in found.pre if block.startswith("\n")]
    assert len(said) >= 4

    written = page(markdown_export.MarkdownExport(), rows, text[:60])
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", written)
    parser = MarkdownIt("commonmark", {"maxNesting": 250})
    tokens = parser.parse(written)
    htmls = [token.content for token in tokens if token.type == "html_block"]
    htmls += [child.content for token in tokens for child in token.children or () if child.type == "html_inline"]
    assert not any(child.type == "image" for token in tokens for child in token.children or ())
    for tag in htmls:
        assert re.fullmatch(r"<details><summary>[^<>\n]*</summary>\n?|</details>\n?|<!-- -->\n?", tag), tag
    assert sum("<summary>" in tag for tag in htmls) == sum("</details>" in tag for tag in htmls) <= 5
    heads = [
        tokens[n + 1].content for n, token in enumerate(tokens) if token.type == "heading_open" and not token.level
    ]
    assert heads[-1] == "2. THE END"


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_nothing_gets_out(text: str) -> None:
    stays_in_its_place(text)


pieces = st.sampled_from(
    ["```", "~~~", "\n", "\n\n", "<", ">", "<b>", "</details>", "<!--", "-->", "`", "- ", "> ", "    ", "1. ", "# ",
     "|", "[a](", ")", "![", "javascript:x", "http://e.org", "\\", "&", '"', "*", "_", "\t", "<div>", "]]>", "é🐎 "]
)  # fmt: skip


@given(st.lists(pieces, max_size=14).map("".join))
def test_nothing_gets_out_however_it_is_put_together(text: str) -> None:
    stays_in_its_place(text)


@given(st.text(st.sampled_from("`~ab\n"), max_size=40))
def test_no_content_closes_its_fence(text: str) -> None:
    (fence,) = MarkdownIt("commonmark").parse(markdown_export.fence(text, "text"))
    assert fence.type == "fence" and fence.content == (text if text.endswith("\n") or not text else text + "\n")


@pytest.mark.parametrize(
    "text",
    [
        "  - a\n  - b\n  - c",
        "   ```py\n   if x:\n     y\n   ```\n\nz",
        "    code\n    more",
        "\tcode\n\n\tmore",
        "   x\n\n    code",
        " 1. a\n\n        code",
        "\n \n  x",
    ],
)
def test_reply_that_begins_indented_stands_for_itself(text: str) -> None:
    """Behind a list, which would take it in."""
    written = page(
        markdown_export.MarkdownExport(), raws(*(ev.AssistantMessage((Text(each),)) for each in ("- a\n  1. b", text)))
    )
    rendered = MarkdownIt("commonmark").render
    assert rendered(written).endswith("<!-- -->\n" + rendered(text)) and "<ol>\n<li>b</li>\n</ol>" in rendered(written)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a ![x](http://h/p.png) b", "a \\![x](http://h/p.png) b"),
        ("[![x](http://h/p.png)](http://h)", "[\\![x](http://h/p.png)](http://h)"),
        ("![x][r]\n\n[r]: http://h/p.png", "\\![x][r]\n\n[r]: http://h/p.png"),
        ("![x][defined elsewhere]", "\\![x][defined elsewhere]"),
        ('<img src="http://h/p.png">', '\\<img src="http://h/p.png">'),
        ("```md\n![x](http://h/p.png)\n```", "```md\n![x](http://h/p.png)\n```"),
        ("`![x](http://h/p.png)` \\![x](y) no!", "`![x](http://h/p.png)` \\![x](y) no!"),
    ],
)
def test_markdown_export_fetches_no_picture(text: str, written: str) -> None:
    assert markdown_export.contain(text) == written
    rendered = MarkdownIt("commonmark").enable("table").render(written + "\n\n[defined elsewhere]: http://h/p.png")
    assert "<img" not in rendered


def test_replies_look_in_markdown_as_they_do_alone() -> None:
    for text in ("*a* `b`\n\n- c\n  - d\n\n```py\n<b> & \\<\n```\n", "a  \nb\n\n> q\n\n1. x\n2. y", "a < b and c > d"):
        assert markdown_export.contain(text) == text
    assert markdown_export.contain("<b>x</b> `<i>`") == "\\<b>x\\</b> `\\<i>`"
    assert html.render_markdown("a < b & `<i>`") == "<p>a &lt; b &amp; <code>&lt;i&gt;</code></p>\n"
