"""Histories as JSON and JSONL are read back as they were written, and damaged ones are refused."""

import io
import json
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ikigai.core.errors import Rejected
from ikigai.core.relocation.renumber import RawRow
from ikigai.export.json_export import ExportInfo, JsonExport, JsonlExport
from ikigai.export.json_import import ImportReader

SZIA = 'Szia! 🐎\n"\\\t\x1b[31m\x9b\u202e'
ROWS = [
    RawRow(3, "a-root", 1, 1_700_000_000.123456, "user", SZIA, '{"from": [{"a": 1.10}]}'),
    RawRow(4, "a-root", 2, 1_700_000_001.0, "tool_call", "{}", '{"id": "c", "name": "look"}'),
    RawRow(9, "b", 1, 1_700_000_002.5, "later", None, '{"x": 123456789012345678901234567890, "e": "\\u0001"}'),
    RawRow(10, "b", 2, 1_700_000_003.0, "clear", None, None),
    RawRow(11, "b", 3, 1_700_000_003.0, "user", "", None),
]  # fmt: skip
ABOUT = ExportInfo("b", 0, None, len(ROWS), 1_700_000_009.0)


def text(form: JsonExport | JsonlExport, rows: list[RawRow] = ROWS) -> str:
    return "".join([*form.begin(ABOUT), *form.rows(rows[:2]), *form.rows(rows[2:]), *form.end()])


def intake(data: str | bytes) -> ImportReader:
    data = data.encode(errors="surrogatepass") if isinstance(data, str) else data
    return ImportReader(Path("x.json"), io.BytesIO(data), len(data))


def read(data: str | bytes) -> list[RawRow]:
    return list(intake(data).rows())


def stored(rows: list[RawRow]) -> list[Any]:
    """Return the meaning of the rows: spaces between the parts of `data`, and zeros behind a decimal point, do not
    matter.
    """
    return [(*raw[:6], raw.data and json.loads(raw.data, parse_float=Decimal)) for raw in rows]


@pytest.mark.parametrize("form", [JsonExport, JsonlExport])
def test_what_is_written_is_read(form: type[JsonExport | JsonlExport]) -> None:
    written = text(form())
    assert all(line.isprintable() for line in written.splitlines()), "a terminal obeys nothing of it"
    assert read(written) == ROWS
    assert read(text(form(), [])) == []
    assert written.count("\n") == len(ROWS) + 2
    whole = json.loads(written) if form is JsonExport else [json.loads(line) for line in written.splitlines()]
    head, events = (whole, whole["events"]) if isinstance(whole, dict) else (whole[0], whole[1:-1])
    assert head["format"] == "ikigai-history" and head["version"] == 1 and head["agent"] == "b"
    assert events[0] == {
        "id": 3, "agent": "a-root", "seq": 1, "at": "2023-11-14T22:13:20.123456Z", "kind": "user",
        "content": ROWS[0].content, "data": {"from": [{"a": 1.1}]},
    }  # fmt: skip
    end = whole if isinstance(whole, dict) else whole[-1]
    assert end["count"] == len(ROWS) and len(end["sha256"]) == 64 and head["checksum"] == "sha256"


def test_json_that_another_program_has_laid_out() -> None:
    for options in ({"indent": 2}, {}, {"separators": (",", ":"), "ensure_ascii": False}):
        again = intake(json.dumps(json.loads(text(JsonExport())), **options))
        assert [row[:6] for row in again.rows()] == [row[:6] for row in ROWS] and again.has_checksum
    broken: Any = json.loads(text(JsonExport()))
    broken["events"][1]["seq"] += 1
    with pytest.raises(Rejected, match="damaged or was changed"):
        read(json.dumps(broken, indent=2))
    broken["events"][1]["id"] = 1
    with pytest.raises(Rejected, match=r"event 2: the id 1 does not ascend"):
        read(json.dumps(broken, indent=2))
    del broken["count"]
    del broken["events"][1]
    with pytest.raises(Rejected, match="the file is incomplete"):
        read(json.dumps(broken, indent=2))


def test_file_that_ends_early_is_refused_wherever_it_ends() -> None:
    for form in (JsonExport, JsonlExport):
        whole = text(form()).encode()
        for end in range(len(whole) - 1):
            with pytest.raises(Rejected) as refused:
                read(whole[:end])
            assert "line " in refused.value.what or "not a history" in refused.value.what
            assert "Nothing was imported" in refused.value.what and refused.value.remedy
        assert len(read(whole[:-1])) == len(ROWS), "a line break at the end is no matter"


def test_damage_is_found_with_its_line() -> None:
    """A lost or changed byte leads to a refusal in words, or the file still holds events."""
    whole = text(JsonlExport()).encode()
    for place in range(0, len(whole), 3):
        for changed in (whole[:place] + whole[place + 1 :], whole[:place] + b"\xff" + whole[place + 1 :],
                        whole[:place] + b"\n" + whole[place:], whole[:place] + b'"' + whole[place + 1 :]):  # fmt: skip
            try:
                rows = read(changed)
            except Rejected as refused:
                assert any(word in refused.what for word in ("line ", "not a history", "damaged or was changed"))
            else:
                assert stored(rows) == stored(ROWS)


@pytest.mark.parametrize("form", [JsonExport, JsonlExport])
def test_no_changed_byte_changes_what_is_read(form: type[JsonExport | JsonlExport]) -> None:
    """Every byte, each of its bits, and JSON's spaces: refused, or only the layout has changed."""
    whole, refusals = text(form()).encode(), 0
    for place, byte in enumerate(whole):
        for changed in {*(byte ^ 1 << bit for bit in range(8)), *b" \t\r\n"} - {byte}:
            try:
                found = intake(whole[:place] + bytes((changed,)) + whole[place + 1 :])
                assert stored(list(found.rows())) == stored(ROWS), (place, changed)
                assert found.agent == "b" and found.has_checksum
                assert changed in b" \t\r\n" or chr(changed).lower() == chr(byte).lower(), (place, changed)
            except Rejected:
                refusals += 1
    assert refusals > 8 * 0.95 * len(whole)


def test_numbers_count_to_their_last_digit() -> None:
    for number, other in (("0.1234567890123456789012", "0.1234567890123456789013"), ("9" * 5000, "9" * 4999 + "8")):
        raw = RawRow(3, "b", 1, 1_700_000_000.0, "later", None, f'{{"x": {number}}}')
        written = text(JsonlExport(), [raw])
        assert read(written) == [raw]
        with pytest.raises(Rejected, match="damaged or was changed"):
            read(written.replace(number, other))


def test_file_without_a_checksum_is_read_and_known() -> None:
    """Earlier versions and other programs write such files; with half of a checksum a file is damaged."""
    lines = text(JsonlExport()).splitlines()
    first = lines[0].replace(',"checksum":"sha256"', "")
    last = json.dumps({"count": len(ROWS)}, separators=(",", ":"))
    for beginning, end, taken in ((first, last, True), (lines[0], last, False), (first, lines[-1], False)):
        found = intake("\n".join((beginning, *lines[1:-1], end, "")))
        if taken:
            assert list(found.rows()) == ROWS and not found.has_checksum
        else:
            with pytest.raises(Rejected, match="damaged or was changed") as refused:
                list(found.rows())
            assert "`checksum` and `sha256`" in refused.value.remedy


def event(**changes: Any) -> str:
    fields = {"id": 5, "agent": "a", "seq": 1, "at": "2023-11-14T22:13:20Z", "kind": "user", "content": "hi"} | changes
    return json.dumps({key: value for key, value in fields.items() if value != "-"})


HEAD = '{"format":"ikigai-history","version":1,"agent":"a"}'


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (event(id=-1), "does not ascend"),
        (event(id=0), "does not ascend"),
        (event(id=2**63), "does not ascend"),
        (event(id="5"), "Expected `int`"),
        (event(id=5.5), "Expected `int`"),
        (event(id="-"), "missing required field `id`"),
        (event(kind=""), "not a kind"),
        (event(kind="k" * 65), "not a kind"),
        (event(kind="a\nb"), "not a kind"),
        (event(kind=7), "Expected `str`"),
        (event(at="yesterday"), "RFC3339"),
        (event(at="2023-11-14T22:13:20"), "its time is not valid"),
        (event(at="2999-01-01T00:00:00Z"), "its time is not valid"),
        (event(at="1950-01-01T00:00:00Z"), "its time is not valid"),
        (event(at=17), "Expected `datetime`"),
        (event(content="a\0b"), "`content` contains a character that the database cannot store"),
        (event(content=["x"]), "Expected `str"),
        (event(data=["x"]), "`data` is not an object"),
        (event(data="{}"), "`data` is not an object"),
        (event(kind="later", data={"x": [{"y": "a\0b"}]}), "`data` contains a character that"),
        (event(kind="later", data={"a\0b": 1}), "`data` contains a character that the database cannot store"),
        (event(kind="rewind", content="-", data={"to": "x"}), "is not a valid event of the kind rewind"),
        (event(kind="turn_end", content="-"), "is not a valid event of the kind turn_end"),
        (event()[:-1] + ',"data":' + '{"x":' * 5000 + "1" + "}" * 5001, "nested too deep"),
        ("[1, 2]", "Expected `object`"),
        ("null", "Expected `object`"),
        ("", "truncated"),
        ('{"count":0', "the count is not valid"),
        ('{"count":1}\n' + event(), "more after the end"),
        ('{"count":3}', "it has 1 events instead of 3"),
        (event(content="\ud800"), "invalid"),
    ],
)  # fmt: skip
def test_what_is_no_event_is_refused(line: str, why: str) -> None:
    with pytest.raises(Rejected) as refused:
        read("\n".join((HEAD, event(id=4), line, *(() if line == '{"count":3}' else ('{"count":2}',)), "")))
    assert why in refused.value.what or why == "invalid", refused.value.what
    assert refused.value.what.startswith(("x.json, line 3: ", "x.json, line 4: "))
    assert "Nothing was imported" in refused.value.what and len(refused.value.what) < 500 and refused.value.remedy


@pytest.mark.parametrize(
    "data",
    [b"", b"\n", b"\xff\xfe\x00", b"hello\n", b"[]", b"{}", b'{"format":"other","version":1}\n', b"\x89PNG\r\n\x1a\n",
     b'{"format":"ikigai-history"}\n', b'{"a":1}\n{"b":2}\n', b"PGDMP\x01", b"{" * 100_000],
)  # fmt: skip
def test_what_is_no_export_is_refused(data: bytes) -> None:
    with pytest.raises(Rejected, match="not a history that ikigai exported"):
        read(data)


def test_of_a_later_version() -> None:
    with pytest.raises(Rejected, match=r"version 2, this ikigai knows 1") as refused:
        read(HEAD.replace("1", "2") + "\n")
    assert "newer" in refused.value.remedy


def test_clock_may_be_a_little_ahead() -> None:
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
    assert len(read(f'{HEAD}\n{event(at=at)}\n{{"count":1}}\n')) == 1
