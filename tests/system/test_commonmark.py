r"""Characters of code in prose stay, and ordinary Markdown is markup."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikigai.system.commonmark import build_parser, end_with_newline


def html(text: str, *, prose: bool = True) -> str:
    return build_parser(20, prose=prose).render(end_with_newline(text)).strip().removeprefix("<p>").removesuffix("</p>")


@pytest.mark.parametrize(
    "text",
    [
        "2*3*4",
        "2**n**2 and 3**4",
        "f(x)*g(y)*2 and (a)*(b)*(c)",
        "a[1]*b*c",
        "x*y + y*z",
        "src/*.py and tests/*.py",
        "**/*.py and **/*.js",
        "app/**/test_*.py or lib/**/x-*.py, a_*.py",
        "SELECT *, count(*) FROM t",
        "*.py, *.js and *.css*",
        "int* a, int* b, char *c",
        "*args and **kwargs",
        "__init__ and __name__",
        "foo.__init__() calls __new__",
        "__init__.py, (__main__), __FILE__:__LINE__",
        r"C:\.config and C:\_x",
        r"C:\Users\me\.config\(old)",
        r"\d+\.\d+ or \$\w+",
        r"..\_private or %APPDATA%\.x",
        r"\server\.share",
        r"(C:\.config), “C:\!x”",
        "snake_case_name and _private",
    ],
)
def test_code_in_prose_stays_as_it_is(text: str):
    assert re.sub("</?p>", "", html(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        *("*a*", "**a**", "***a***", "_a_", "_a b_", "__two words__", "a *b* c", "**API**s and **Note:**text"),
        *("**bold *both* bold**", "**`code`**", "*[a](b)*", "[**a**](b)", "**a**, *b*; (*c*) — *d*.", "**/etc/hosts**"),
        *(
            "这是**重要**的 *很*好",
            "これは*強調*です",
            "**src/** and *docs/*",
            '*"quoted"*',
            "*(in brackets)*",
            "*...and so on*",
        ),
        *(
            r"snake\_case \*not\* 1\. \# \[a\](b)",
            r"a\*b\*c",
            r"\\ and \`x\`",
            "a\\\nb",
            "*a\nb*",
            "~~x~~",
            "__a__b c__",
        ),
        *("* item\n* *b*\n", "1. **a**\n", "> *a*", "| *a* | **b** |\n|-|-|\n| `*` | 2\\|3 |\n", "**a**\n\n***\n\n*b*"),
    ],
)
def test_ordinary_markdown_is_markup(text: str):
    assert html(text) == html(text, prose=False)


@given(st.text("*_\\ab1 ./()[]`字,\n", max_size=40))
def test_nothing_but_markup_is_lost(text: str):
    letters = re.compile("[ab1字]")
    plain = re.sub("<[^>]*>|&[a-z]+;", "", html(text, prose=True))
    wanted = re.sub("<[^>]*>|&[a-z]+;", "", html(text, prose=False))
    assert letters.findall(plain) == letters.findall(wanted) or "](" in text or "<ol" in html(text)


def test_many_markers_take_no_time_to_speak_of():
    for text in ("a*b" * 30_000, "\\d" * 30_000, "__a__ " * 15_000, "/*.x " * 20_000, "a**b" * 20_000):
        build_parser(20).render(text)
