"""Tests of search over the whole program: `ikigai history`, /search at the terminal and in print mode."""

import json
import re

import psycopg
import pytest

from tests.e2e.account import ECHO, WIRE, Account, Wire, figures_of, refused
from tests.support.wire_server import completion


def say(account: Account, *texts: str) -> None:
    account.say(*texts)


def hits(account: Account, *arguments: str) -> list[dict[str, object]]:
    result = account.run("history", "search", *arguments, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["hits"]


def test_history_search(account: Account):
    say(account, "The crème brûlée recipe", "nothing of that", "日本の首都は東京")
    (agent,) = account.agents()
    told = account.run("history", "search", "creme", "brul", "--kind", "user").stdout
    head, snippet = told.splitlines()
    assert re.fullmatch(rf"#\d+  \d{{4}}-\d\d-\d\d \d\d:\d\d  {agent}  user", head)
    assert snippet == "  The crème brûlée recipe"
    (found,) = hits(account, "creme brul", "--kind", "user")
    assert found["agent"] == agent and found["snippet"] == "The crème brûlée recipe"
    assert [found["snippet"][a:b] for a, b in found["places"]] == ["crème", "brûl"]
    assert len(hits(account, "creme")) == 2, "the echo, too"
    assert len(hits(account, "creme", "--limit", "1")) == 1
    assert len(hits(account, "首都", "--kind", "user", "--kind", "mark")) == 1
    assert hits(account, '"of nothing"') == [] and len(hits(account, '"nothing of', "--order", "relevance")) == 2
    assert hits(account, "creme", "--before", str(found["id"])) == []
    assert len(hits(account, "creme", "--since", "1d", "--agent", agent)) == 2
    assert account.run("history", "search", "zebra").stdout == "Nothing was found.\n"
    widened = account.run("history", "search", "rulee").stdout
    assert "brûlée" in widened and widened.endswith("No word begins so; these matches are inside words.\n")


def test_search_results_are_made_safe(account: Account):
    say(account, "danger \x1b[31mred\x1b]0;title\x07 \u202e zone")
    told = account.run("history", "search", "danger").stdout
    assert "\x1b" not in told and "\u202e" not in told and "red" in told
    assert "\x1b" not in account.run("history", "list").stdout
    with account.terminal(*ECHO) as program:
        program.ready()
        program.say("/search danger")
        program.wait_for("zone")
        assert b"]0;title" not in program.raw
        program.leave()


REFUSED = [
    (("search", ""), "Add the words to search for."),
    (("search", "x" * 1001), "1,000 characters at most"),
    (("search", "x", "--agent", "nobody"), "There is no agent nobody."),
    (("search", "x", "--kind", "usage"), "There is no 'usage'. Did you mean user?"),
    (("search", "x", "--since", "yesterday"), "is not a date"),
    (("search", "x", "--limit", "0"), "'0' is not a limit"),
    (("search", "x", "--before", "-1"), "'-1' is not an event id"),
    (("show", "x"), "'x' is not an event id"),
    (("show", "99"), "There is no event #99."),
    (("list", "--agent", "nobody"), "There is no agent nobody."),
    (("recall", " "), "Add a question."),
    ((), "name one of search, recall, list"),
]
"""Arguments that are refused, and words of the refusal."""


def test_what_cannot_be_asked(account: Account):
    say(account, "hello")
    for arguments, words in REFUSED:
        result = account.run("history", *arguments)
        assert result.returncode == 2 and words in result.stderr and "Traceback" not in result.stderr


@pytest.mark.long  # tests/store/search/test_search.py shows it
def test_odd_queries(account: Account):
    say(account, "it's 100% 'quoted' \\ -- drop table messages;")
    for query in (
        "'",
        '"',
        "'; drop table messages; --",
        "%",
        "\\",
        "100%",
        "a",
        "i",
        "'quoted",
        "it's",
        ":*",
        "& | !",
    ):
        result = account.run("history", "search", "--json", "--", query)
        assert result.returncode == 0, (query, result.stderr)
        if query in ("'; drop table messages; --", "%", "100%", "i", "it's", "\\"):
            assert json.loads(result.stdout)["hits"], query
    assert len(account.said("user")) == 1


def test_list_and_show(account: Account):
    say(account, "first words", "line one\nline two", "last words")
    (agent,) = account.agents()
    rows = account.run("history", "list").stdout.splitlines()
    assert [row.split("  ", 2)[2].split(maxsplit=1) for row in rows if " user " in row] == [
        ["user", "first words"],
        ["user", "line one line two"],
        ["user", "last words"],
    ]
    listed = json.loads(account.run("history", "list", "--json", "--agent", agent).stdout)
    assert listed["agent"] == agent and len(listed["events"]) == len(rows)
    assert account.run("history", "list", "--limit", "2").stdout.splitlines() == rows[-2:]
    id = next(event["id"] for event in listed["events"] if event["text"] == "line one\nline two")
    older = json.loads(account.run("history", "list", "--json", "--before", str(id)).stdout)["events"]
    assert all(event["id"] < id for event in older) and older
    shown = account.run("history", "show", f"#{id}").stdout
    assert shown.splitlines()[1:] == ["  line one", "  line two"]
    beside = json.loads(account.run("history", "show", str(id), "--beside", "1", "--json").stdout)["events"]
    assert [event["text"] for event in beside][1] == "line one\nline two" and len(beside) == 3
    assert account.run("history", "show", "99999").returncode == 2


def test_nothing_yet(account: Account):
    assert account.run("history", "search", "x").stdout == "Nothing was found.\n"
    refused(account.run("history", "list"), 2, "There is no agent that you used last.")


def test_search_at_the_terminal(account: Account):
    say(account, "an early giraffe")
    assert account.run(*ECHO, "--new", "-p", "another giraffe").returncode == 0
    first, second = account.agents()
    with account.terminal(*ECHO, "-r", first, columns=120) as program:
        program.ready()
        program.say("/search giraffe")
        program.wait_for("in context")
        rows = [line.strip() for line in program.scrollback() if line.strip().startswith("#")]
        assert [second in row for row in rows] == [True, True, False, False]
        assert [row.endswith("in context") for row in rows] == [False, False, True, True]
        assert b"\x1b[1;33mgiraffe\x1b[0m" in program.raw
        program.say("/clear")
        program.wait_for("Context cleared")
        program.say("/search early giraffe")
        program.wait_for("an early giraffe")
        program.settled()
        id = rows[-1].split()[0]
        program.say(f"/search {id}")
        program.wait(lambda: program.text().count(id) >= 3, "the event")
        program.say("/search #99999")
        program.wait_for("There is no event #99999.")
        program.say("/search")
        program.wait_for("Add the words to search for.")
        program.leave()


@pytest.mark.parametrize("columns", [40, 80])
def test_long_answer_of_recall_shows_its_sources_and_can_be_opened(account: Account, wire: Wire, columns: int):
    say(account, "The walrus likes clams. " + "海象と海豹、" * 100, "And the seal?")
    with account.terminal(*WIRE, columns=columns, rows=24) as program:
        program.ready()
        wire.answers(completion("\n".join(f"{n} {'a walrus and a seal ' * 30}" for n in range(8)) + "\nThe end."))
        program.say("/recall walrus")
        program.wait_for("Sources: #")
        program.settled()
        (cut,) = [row for row in program.scrollback() if "more lines" in row]
        assert re.fullmatch(r"… \d more lines \(Ctrl\+O\)", cut.strip())
        program.type("\x0f")
        program.wait(lambda: program.lines()[1].endswith("· /recall walrus"), "the answer in the history")
        program.type("\x1b[6~" * 10)
        program.wait(lambda: any(row.endswith("The end.") for row in program.lines()), "all of the answer")
        program.type("q")
        program.settled()
        program.say("/search #2")
        program.wait_for("ikigai history show")
        program.settled()
        rows = program.scrollback()
        head = max(n for n, row in enumerate(rows) if row.startswith("  #1  "))
        event = " ".join(row.strip() for row in rows[head : rows.index("", head)])
        assert event.endswith("… 624 characters in all: ikigai history show 1")
        assert rows.index("", head) - head <= 7, "three rows of the message before"
        program.leave()


def test_repl_fills_the_search_index_in_the_background(account: Account):
    with account.terminal(*ECHO) as program:
        program.ready()
        program.say("a marmot")

        def indexed() -> bool:
            with psycopg.connect(account.dsn) as other:
                return other.execute("select max(last) from search_documents").fetchall() == [(1,)]

        program.wait(indexed, "the index")
        program.leave()
    assert account.endings() == ["completed"]


def test_search_in_print_mode(account: Account):
    say(account, "a platypus")
    assert "a platypus" in account.run("-c", "-p", "/search platypus").stdout
    made = figures_of(account.run("-c", "-p", "/search platypus", "--json"))
    assert [hit["in_context"] for hit in made["hits"]] == [True, True] and made["query"] == "platypus"
    shown = account.run("-c", "-p", f"/search #{made['hits'][-1]['id']}").stdout
    assert "a platypus" in shown
    refused(account.run("-c", "-p", "/search"), 2, "Add the words to search for.")
    assert len(account.said("user")) == 1, "nothing of it is said to a model"


def test_hits_say_what_is_in_the_context(account: Account):
    say(account, "an early otter")
    assert account.run(*ECHO, "-c", "-p", "/clear").returncode == 0
    say(account, "a late otter")
    made = figures_of(account.run(*ECHO, "-c", "-p", "/search otter", "--json"))
    assert [(hit["snippet"], hit["in_context"]) for hit in made["hits"]] == [
        ("a late otter", True), ("a late otter", True), ("an early otter", False), ("an early otter", False),
    ]  # fmt: skip
    told = account.run(*ECHO, "-c", "-p", "/search otter").stdout
    assert [line.endswith("in context") for line in told.splitlines() if line.startswith("#")] == [True] * 2 + [
        False
    ] * 2
