"""Tests of the mentions in a message: which words may name a file or a page, and how a name is written."""

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikigai.core.commands.mentions import Mention, begun_mention, find_mentions, format_mention, may_mention


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("look at @cat.png", "cat.png"),
        ("@cat.png", "cat.png"),
        ("(@cat.png)", "cat.png"),
        ("see “@cat.png”.", "cat.png"),
        ("is it @cat.png?!", "cat.png"),
        ("@a.py,", "a.py"),
        ('@"my cat.png" and more', "my cat.png"),
        ("@'my cat.png'.", "my cat.png"),
        ("@my\\ cat.png, dragged here", "my cat.png"),
        ("@~/dog.png", "~/dog.png"),
        ("@src/", "src/"),
        ("@.", "."),
        ("@../", "../"),
    ],
)
def test_mention_names_a_path(text: str, name: str):
    (mention,) = find_mentions(text)
    assert name in mention.names and may_mention(text) and not mention.is_code


@pytest.mark.parametrize("text", ["me@example.com wrote", "cc a@cat.png", "@ cat.png, @", '@""', "\\@cat.png", "a/@b"])
def test_at_sign_elsewhere_is_no_mention(text: str):
    assert find_mentions(text) == () and not may_mention(text)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("@https://example.org/a?b=c#d", "https://example.org/a?b=c#d"),
        ("(see @http://example.org/page.)", "http://example.org/page"),
        ("@https://example.org/a_(b)", "https://example.org/a_(b)"),
        ("@https://example.org/a), and", "https://example.org/a"),
        ('@"https://example.org/a b"', "https://example.org/a b"),
    ],
)
def test_mention_names_a_page(text: str, url: str):
    assert find_mentions(text) == (Mention(url=url),)


def test_call_is_code():
    (mention,) = find_mentions('@app.get("/items/x.json")')
    assert mention.is_code


def test_punctuation_alone_names_no_folder():
    (mention,) = find_mentions("well @...")
    assert mention.names == ("...",)


@pytest.mark.parametrize(
    ("before", "begun"),
    [
        ("see @src/ma", ("@src/ma", "src/ma")),
        ('see @"my d', ('@"my d', "my d")),
        ("see @my\\ d", ("@my\\ d", "my d")),
        ("@https://exa", ("@https://exa", "https://exa")),
        ("me@example", None),
        ("see @src now", None),
    ],
)
def test_begun_mention_is_found_at_the_end(before: str, begun: tuple[str, str] | None):
    assert begun_mention(before) == begun


@given(st.text(alphabet="@ab.png \\\"'\n~/(){}…\0é:htps", max_size=60))
def test_any_text_is_read(text: str):
    assert bool(find_mentions(text)) == may_mention(text)


@given(st.text(alphabet="ab. \\\"'~/(){}…é,", min_size=1, max_size=30).filter(lambda name: PurePosixPath(name).name))
def test_written_mention_names_its_file(name: str):
    (mention,) = find_mentions(f"see {format_mention(name)} there")
    assert name in mention.names
