"""Tests of the front matter as ikigai loads it: laxer than the specification."""

import pytest

from ikigai.app.skills.front_matter import read_leniently


@pytest.mark.parametrize(
    ("head", "fields"),
    [
        ("description: Use it when: there is a PDF", {"description": "Use it when: there is a PDF"}),
        ("description: [draft] extracts", {"description": "[draft] extracts"}),
        ("description: *Extracts* text", {"description": "*Extracts* text"}),
        ('description: C:\\temp "quoted": yes', {"description": 'C:\\temp "quoted": yes'}),
        ("a: {b: c}\nd: [e, f]", {"a": {"b": "c"}, "d": ["e", "f"]}),
        ("a: &x b\nc: !!int 3", {"a": "b", "c": "3"}),
        ("a: b\na: c", {"a": "c"}),
        ("a: >\n  b\n  c\nd: 'it''s'", {"a": "b c\n", "d": "it's"}),
        ("a: true\nb: 1.0\nc:", {"a": "true", "b": "1.0", "c": ""}),
    ],
)
def test_values_are_text_and_may_be_sloppy(head: str, fields: dict[str, object]) -> None:
    assert read_leniently(f"---\n{head}\n---\nbody\n") == (fields, "body")


def test_byte_order_mark_dos_line_ends_and_hyphens_in_the_body_do_no_harm():
    assert read_leniently("\ufeff---\r\na: b\r\n---\r\n\r\none\r\n---\r\ntwo\r\n") == ({"a": "b"}, "one\n---\ntwo")
    assert read_leniently("---\na: b --- c\n---") == ({"a": "b --- c"}, "")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "does not begin with front matter"),
        ("---\na: b\n", "does not begin with front matter"),
        ("---\n- a\n---\n", "not a YAML mapping"),
        ("---\n---\n", "not a YAML mapping"),
        ('---\na: "b\n---\n', "not valid YAML.*line"),
        ("---\n\x1b[31ma: b\n---\n", "not valid YAML"),
        ("---\na: &x [*x]\nb:\n  - *x\n---\n", "YAML alias"),
        (f"---\na: {'[' * 200}{']' * 200}\nb:\n- {'[' * 200}\n---\n", "nested too deep|not valid YAML"),
    ],
)
def test_front_matter_that_cannot_be_read_is_refused_in_words(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_leniently(text)
