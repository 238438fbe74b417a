"""Tests of the ledger over the whole program: its rows, `ikigai usage`, /cost, the status line, and waits."""

import json
import re
from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from tests.e2e.account import WIRE, Account, Wire, lines_of, refused
from tests.support.wire_server import Answer, completion, failure


@pytest.fixture
def priced(account: Account) -> Iterator[Wire]:
    """Yield a server with two models: wire/x costs 1000 and 2000 dollars per million tokens, wire/y has no price."""
    with Wire().running() as wire:
        account.configure(
            f'[providers.wire]\nbase_url = "{wire.server.base_url}"\napi_key_env = "WIRE_KEY"\n'
            '[models."wire/x"]\ninput_price = 1000.0\noutput_price = 2000.0\n'
        )
        yield wire


def counted(text: str, input: int, output: int, cached: int = 0, thinking: int = 0, **more: Any) -> Answer:
    usage = {
        "prompt_tokens": input,
        "completion_tokens": output,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": thinking},
    }
    return completion(text, usage=usage, **more)


BUSY = failure(503, "busy", Retry_After="0.05", x_request_id="req_busy")
OTHER = ("-m", "wire/y")


def table(text: str) -> dict[str, list[str]]:
    """Return the lines of a table of figures by their first cell."""
    lines = [re.split(r"\s{2,}", line.strip()) for line in text.splitlines() if "  " in line]
    return {line[0]: line[1:] for line in lines}


def test_every_request_is_a_row_and_the_reports_add_them_up(account: Account, priced: Wire):
    priced.answers(
        BUSY,
        counted("one", 100, 10, 80, 4),
        failure(401, "bad key"),
        counted("three", 50, 5),
        counted("four", 1_000_000, 1),
    )
    for arguments in ((*WIRE, "one"), (*WIRE, "two"), (*OTHER, "three"), (*WIRE, "--new", "four")):
        account.run("-c", "-p", *arguments)
    rows = [data for _, _, data in account.rows("usage")]
    assert [(row["model"], row.get("attempt", 1), row.get("failure", ""), row.get("cost")) for row in rows] == [
        ("wire/x", 1, "overloaded", 0.0),
        ("wire/x", 2, "", 0.12),
        ("wire/x", 1, "auth", 0.0),
        ("wire/y", 1, "", None),
        ("wire/x", 1, "", 1000.002),
    ]
    assert rows[0]["request_id"] == "req_busy" and "purpose" not in rows[1] and rows[1]["size"] > 50
    assert rows[1]["priced_by"] == "configuration" and rows[1]["seconds"] >= rows[1]["first_token_seconds"] > 0
    assert account.endings() == ["completed", "failed", "completed", "completed"]

    today = date.today().isoformat()
    told = account.run("usage").stdout
    assert told.split()[:9] == ["day", "requests", "in", "cached", "out", "thinking", "cost", "failed", "retried"]
    line = ["5", "1,000,150", "80", "16", "4", "≥$1,000.12", "2", "1"]
    assert table(told)[today] == table(told)["total"] == line
    assert told.endswith(
        '\n1 request is not in the cost: no price is known. [models."PROVIDER/NAME"] in the configuration sets one.\n'
    )

    by_model = table(account.run("usage", "--by", "model").stdout)
    assert by_model["wire/x"] == ["4", "1,000,100", "80", "11", "4", "$1,000.12", "2", "1"]
    assert by_model["wire/y"] == ["1", "50", "0", "5", "0", "unknown", "0", "0"] and by_model["total"] == line

    first, second = account.agents()
    by_agent = table(account.run("usage", "--by", "agent").stdout)
    assert by_agent[first][0] == "4" and by_agent[second][:2] == ["1", "1,000,000"] and by_agent["total"] == line
    assert table(account.run("usage", "--agent", second).stdout)["total"][0] == "1"
    assert "known price" not in account.run("usage", "--agent", second).stdout

    drawn = account.run("usage", "--plot", COLUMNS="60").stdout
    assert drawn.startswith("Tokens and cost by hour") and "\x1b" not in drawn
    assert max(map(len, drawn.splitlines())) <= 60
    total = [line.split()[-1] for line in drawn.splitlines() if line.startswith("total")]
    assert total == ["1M", "≥$1,000.12"] and f"The window of {first}, in tokens: " in drawn
    words = account.run("usage", "--plot", "--by", "agent", "--agent", first, TERM="dumb").stdout
    assert f"{first}: 150 tokens in (80 cached), 15 out, ≥$0.1200, 4 requests" in words and "█" not in words
    assert re.search(r"\n100 tokens\n\d+ tokens\n50 tokens\n", words), "turn by turn, the refused one, too"
    for option in ("--json", "--csv"):
        both = account.run("usage", "--plot", option)
        assert both.returncode == 2 and f"argument {option}: not allowed with argument --plot" in both.stderr


def test_json_is_exact(account: Account, priced: Wire):
    priced.answers(*(counted("x", 1, 0) for _ in range(3)), counted("y", 7, 1))
    for n in range(3):
        account.run(*WIRE, "-c", "-p", str(n))
    account.run(*OTHER, "-c", "-p", "y")
    result = account.run("usage", "--json", "--by", "model", "--since", "1d").stdout
    made = json.loads(result, parse_float=Decimal)
    assert set(made) == {"type", "by", "since", "agent", "agent_id", "rows", "total"}
    assert (made["by"], made["since"], made["agent"]) == ("model", date.today().isoformat(), None)
    assert [(row["model"], row["requests"], row["cost"]) for row in made["rows"]] == [
        ("wire/x", 3, Decimal("0.003")),
        ("wire/y", 1, None),
    ]
    assert made["total"]["cost"] == Decimal("0.003") and made["total"]["unpriced"] == 1
    assert set(made["total"]) == {
        "requests", "failed", "interrupted", "retried", "input", "cached", "written", "output", "thinking",
        "searches", "cost", "unpriced", "at_least", "prunes", "pruned",
    }  # fmt: skip


def test_since_and_days(account: Account, priced: Wire):
    account.run(*WIRE, "-p", "now")
    with psycopg.connect(account.dsn) as other:  # some of it happened earlier
        for days in (1, 2, 40):
            other.execute(
                "insert into messages (event_id, agent_id, seq, kind, data, created_at)"
                " select gen_random_uuid(), agent_id, max(seq) + 1, 'usage', '{\"model\": \"a/b\"}',"
                " now() - make_interval(days => %s) from messages group by agent_id",
                (days,),
            )

    def days(*arguments: str, **env: str) -> list[str]:
        return [row["day"] for row in json.loads(account.run("usage", "--json", *arguments, **env).stdout)["rows"]]

    today = date.today()
    assert days() == [(today - timedelta(days=n)).isoformat() for n in (40, 2, 1, 0)]
    assert days("--since", "1d") == [today.isoformat()]
    assert days("--since", "3d") == [(today - timedelta(days=n)).isoformat() for n in (2, 1, 0)]
    assert days("--since", (today - timedelta(days=1)).isoformat())[0] == (today - timedelta(days=1)).isoformat()
    # Somewhere it is tomorrow already, or yesterday still.
    east, west = days(TZ="Pacific/Kiritimati"), days(TZ="Pacific/Pago_Pago")
    assert len(east) == len(west) == 4 and east[-1] > west[-1]


@pytest.mark.ordinary("arguments0-*", "arguments4-*")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--since", "yesterday"), "'yesterday' is not a date; write 2026-11-30, or 7d"),
        (("--since", "2026-02-30"), "'2026-02-30' is not a date"),
        (("--since", "20261130"), "is not a date"),
        (("--since", "0d"), "is not a date"),
        (("--limit", "-1"), "'-1' is not a number of rows; 0 lists all"),
        (("--plot", "--limit", "5"), "--limit does not apply"),
        (("--cache", "--limit", "5"), "--limit does not apply"),
        (("--by", "moon"), "There is no 'moon'. Did you mean month?"),
    ],
)
def test_what_cannot_be_asked(account: Account, arguments: tuple[str, ...], words: str):
    result = account.run("usage", *arguments)
    assert result.returncode == 2 and words in result.stderr and "Traceback" not in result.stderr


def test_nothing_to_add_up(account: Account):
    assert account.run("db", "migrate").returncode == 0
    assert account.run("usage").stdout == "No requests were found.\n"
    made = json.loads(account.run("usage", "--json").stdout)
    assert made["rows"] == [] and made["total"]["cost"] == 0
    refused(account.run("usage", "--agent", "nobody"), 2, "There is no agent nobody.")


def test_print_mode_adds_up_its_turn(account: Account, priced: Wire):
    calls = completion("", calls=[{"name": "none"}], usage={"prompt_tokens": 10, "completion_tokens": 1})
    priced.answers(BUSY, calls, counted("done", 20, 2, 5, 1))
    made = json.loads(account.run(*WIRE, "-c", "-p", "go", "--output-format", "json").stdout)
    assert made["usage"] == {
        "input": 30, "output": 3, "cached": 5, "written": 0, "thinking": 1, "cost": 0.036, "unpriced": 0,
        "at_least": 0, "searches": 0,
    }  # fmt: skip
    priced.answers(BUSY, counted("done", 20, 2))
    result = lines_of(account.run(*OTHER, "-c", "-p", "go", "--output-format", "stream-json").stdout)[-1]
    assert (result["usage"]["cost"], result["usage"]["unpriced"]) == (None, 1), "the failed attempt cost nothing"
    priced.answers(counted("done", 20, 2))
    made = json.loads(account.run(*OTHER, "-c", "-p", "go", "--output-format", "json").stdout)
    assert (made["usage"]["cost"], made["usage"]["unpriced"]) == (None, 1)


def test_status_line_and_cost_show_tokens_and_price(account: Account, priced: Wire):
    priced.answers(counted("before", 7, 7))
    account.run(*WIRE, "-c", "-p", "before")
    priced.answers(counted("● one", 12_300, 450), counted("two", 100, 0), counted("three", 100, 0))
    with account.terminal(*WIRE, columns=120) as program:
        program.ready()
        assert "↑" not in program.status() and "$" not in program.status()
        program.say("first")
        program.wait(lambda: "↑12.3k ↓450 $13.20 · " in program.status(), "the cost")
        program.say("second")
        program.wait(lambda: "↑12.4k ↓450 $13.30 · " in program.status(), "the cost of both")
        program.say("/cost")
        program.wait_for("in all")
        found = table(program.text())
        assert found["this session"] == ["2", "12,400", "0", "450", "$13.30"]
        assert found["this agent"] == found["today"] == found["in all"] == ["3", "12,407", "0", "457", "$13.32"]
        program.say("/cost --plot")
        program.wait_for("0 └")
        assert "Tokens and cost by hour" in program.text() and "╌ the budget" not in program.text()
        assert "$13.32" in program.text() and "in tokens: 3 turns" in program.text()
        program.settled()
        program.say("/new")
        program.wait(lambda: account.agents()[0] not in program.status(), "the other agent")
        program.settled()
        program.say("third")
        program.wait(lambda: "↑12.5k ↓450 $13.40 · " in program.status(), "the cost of both agents")
        program.leave()
    with account.terminal(*OTHER, columns=120) as program:
        program.ready()
        priced.answers(counted("four", 1000, 1))
        program.say("fourth")
        program.wait(lambda: "↑1k ↓1 no price known" in program.status(), "the unknown cost")
        program.say("/cost")
        program.wait_for("1 request is not in the cost: no price is known.")
        found = table(program.text())
        assert found["this session"] == ["1", "1,000", "0", "1", "unknown"] and found["this agent"][-1] == "≥$0.1000"
        program.leave()


def test_retry_wait_counts_down_and_esc_ends_it(account: Account, priced: Wire):
    priced.answers(failure(529, "Overloaded", Retry_After="25"), "never")
    with account.terminal(*WIRE, columns=140) as program:
        program.ready()
        program.say("go")
        program.wait_for("(attempt 2 of 8)")
        seen: set[int] = set()

        def ticking() -> bool:
            seen.update(int(found) for found in re.findall(r"Trying again in (\d+) s", program.text()))
            return len(seen) >= 3

        program.wait(ticking, "three seconds of the countdown")
        assert max(seen) <= 25
        assert "Esc stops" in program.text()
        program.type("\x1b")
        program.wait_for("✗ interrupted")
        program.leave()
    assert len(priced.requests) == 1 and account.endings() == ["interrupted"]
    assert [data.get("failure") for _, _, data in account.rows("usage")] == ["overloaded"]


def test_interrupted_reply_has_a_usage_row(account: Account, priced: Wire):
    priced.answers(completion("word " * 400, pause=0.02))
    with account.terminal(*WIRE) as program:
        program.ready()
        program.say("go")
        program.wait_for("word word")
        program.type("\x1b")
        program.wait_for("✗ interrupted")
        program.leave()
    (row,) = (data for _, _, data in account.rows("usage"))
    assert row["failure"] == "interrupted" and row["cost"] > 0 and row["is_minimum"] and row["first_token_seconds"] > 0
    assert table(account.run("usage").stdout)["total"][5].startswith("≥$0.")


def test_months_and_csv(account: Account, priced: Wire):
    account.run(*WIRE, "-p", "now")
    month = f"{date.today():%Y-%m}"
    made = json.loads(account.run("usage", "--by", "month", "--json").stdout)
    assert [row["month"] for row in made["rows"]] == [month] and made["by"] == "month"
    header, row = account.run("usage", "--by", "month", "--csv").stdout.splitlines()
    assert header.split(",")[:2] == ["month", "requests"] and row.split(",")[:2] == [month, "1"]


def test_row_says_why_a_cache_served_less(account: Account, priced: Wire):
    priced.answers(
        counted("one", 9_000, 1, 4_000),
        counted("two", 9_500, 1, 8_900),
        counted("three", 9_900, 1, 500),
        counted("four", 10_000, 1, 0),
        counted("five", 11_000, 1, 3_000),
    )
    brief = ("--system-prompt", "Be brief.")
    for arguments in ((*WIRE, "one"), (*WIRE, "two"), (*WIRE, *brief, "three"), (*OTHER, *brief, "four")):
        assert account.run("-c", "-p", *arguments).returncode == 0
    with psycopg.connect(account.dsn) as other:  # the last request was ten minutes ago
        other.execute(
            "insert into messages (event_id, agent_id, seq, kind, data, created_at)"
            " select gen_random_uuid(), agent_id, (select max(seq) + 1 from messages), kind, data - 'miss',"
            " now() - interval '10 minutes' from messages where kind = 'usage' order by seq desc limit 1"
        )
    assert account.run("-c", "-p", *OTHER, *brief, "five").returncode == 0
    rows = [data for _, _, data in account.rows("usage")]
    assert [row.get("miss") for row in rows] == [
        None,
        None,
        {"cause": "system", "tokens": 9_000},
        {"cause": "model", "tokens": 9_900},
        None,
        {"cause": "expired", "tokens": 7_000},
    ]
    told = account.run("usage", "--cache").stdout
    assert told.startswith("Of 59,400 input tokens, 16,400 (28%) were read from a cache, and 0 written to one.\n")
    assert (
        "25,900 tokens more could have been read:\n  9.9k tokens in 1 request: another model was asked before\n" in told
    )
    assert "wire/x: 500 of 9,900 read, 0 written, 9,000 missed (system)" in told
    made = json.loads(account.run("usage", "--cache", "--json", "--since", "1d").stdout)
    assert [(row["cause"], row["requests"], row["missed"]) for row in made["total"]["causes"]] == [
        ("model", 1, 9_900),
        ("system", 1, 9_000),
        ("expired", 1, 7_000),
    ]
    assert [row["cause"] for row in made["newest"]] == ["expired", "model", "system"]
    assert account.run("usage", "--cache", "--csv").stdout == "cause,requests,missed\n" + "".join(
        f"{line}\n" for line in ("model,1,9900", "system,1,9000", "expired,1,7000")
    )
    cost = account.run("-c", "-p", "/cost").stdout
    assert "16,400 (28%) were read from a cache" in cost
    assert "Missed 9k tokens in 1 request: the system prompt changed." in cost
    refused(account.run("usage", "--cache", "--by", "model"), 2, "--by does not apply", "Leave out one")


def test_usage_by_tree_and_folder(account: Account, priced: Wire):
    priced.answers(counted("one", 100, 10), counted("two", 50, 5))
    account.run("-c", "-p", *WIRE, "one")
    account.run("-c", "-p", "--new", *WIRE, "two")
    first, second = account.agents()
    with psycopg.connect(account.dsn) as other:  # a subagent of the first one, with a request
        other.execute("update agents set directory = '/there' where name = %s", (second,))
        other.execute(
            "insert into agents (id, name, parent, forked_at, made) select gen_random_uuid(), 'below', id, 0, true"
            " from agents where name = %s",
            (first,),
        )
        other.execute(
            "insert into messages (event_id, agent_id, seq, kind, data) select gen_random_uuid(), id, 1, 'usage',"
            ' \'{"model": "wire/x", "usage": {"input": 7}, "cost": 0.5}\' from agents where name = \'below\''
        )
    by_tree = table(account.run("usage", "--by", "tree").stdout)
    assert by_tree[first][:2] == ["2", "107"] and by_tree[second][:2] == ["1", "50"] and "below" not in by_tree
    assert by_tree["total"][0] == "3"
    for by in ("tree", "agent"):
        dearest = account.run("usage", "--by", by, "--limit", "1").stdout
        others = 1 if by == "tree" else 2
        assert list(table(dearest))[:3] == [by, *list(table(account.run("usage", "--by", by).stdout))[1:2], "total"]
        assert table(dearest)["total"][0] == "3"
        assert f"… and {others} more {by}{'s' * (others > 1)}, in the total too. To list all: --limit 0" in dearest
        limited = json.loads(account.run("usage", "--by", by, "--limit", "1", "--json").stdout)
        assert len(limited["rows"]) == 1 and limited["total"]["requests"] == 3
    assert "To list all" not in account.run("usage", "--by", "agent", "--limit", "0").stdout
    rows = json.loads(account.run("usage", "--by", "folder", "--json").stdout)["rows"]
    assert [row["requests"] for row in rows] == [2, 1] and rows[1]["folder"] == "/there" != rows[0]["folder"]
    assert account.run("usage", "--by", "folder", "--csv").stdout.startswith("folder,requests,")


def test_cold_cache_is_announced_with_its_price_before_the_user_types(account: Account, priced: Wire):
    account.configure(
        f'[providers.wire]\nbase_url = "{priced.server.base_url}"\napi_key_env = "WIRE_KEY"\n'
        '[models."wire/x"]\ninput_price = 10000\noutput_price = 2000\ncached_price = 100\n'
    )
    priced.answers(counted("one", 9_000, 1, 8_000))
    account.run("-c", "-p", *WIRE, "one")
    context = json.loads(account.run("-c", "-p", "/context", *WIRE, "--output-format", "json").stdout)
    figures = context["command"]["figures"]
    assert 0 < figures["cached_price"] < figures["price"] and 200 < figures["cache_seconds"] <= 300
    assert re.search(
        r"next price +\$\S+ with a cache, \$\S+ without", account.run("-c", "-p", "/context", *WIRE).stdout
    )
    with psycopg.connect(account.dsn) as other:
        other.execute(
            "insert into messages (event_id, agent_id, seq, kind, data, created_at)"
            " select gen_random_uuid(), agent_id, (select max(seq) + 1 from messages), kind, data - 'miss',"
            # On a quiet machine it expires when the program has started and waits for it.
            " now() - interval '296 seconds' from messages where kind = 'usage' order by seq desc limit 1"
        )
    with account.terminal(*WIRE, columns=80) as program:
        program.ready()
        program.wait_for("The provider's cache has expired: the input of the next message costs about $")
        assert program.text().count("cache has expired") == 1
        program.say("/context")
        program.wait_for("the cache has expired)")
