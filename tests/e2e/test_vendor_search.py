"""A vendor's own web search in the whole program: printed, shown live and anew, exported, counted, killed within."""

import json

import psycopg

from tests.e2e.account import WIRE, Account, Wire
from tests.providers.anthropic import messages_wire
from tests.providers.search_wire import claude_events
from tests.support.wire_server import Answer

SEARCHED = Answer(messages_wire.sse(*claude_events()))
MODEL = "anthropic/claude-sonnet-5-5"
CALL, SOURCE = "→ vendor_search(query=news of Köln)", '[1] Köln "today"'
SHOWN = ("● I search.", CALL, '← Köln "today"', "● It is new. Good.", SOURCE)


def environment(wire: Wire) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": wire.server.base_url.removesuffix("/v1"),
        "ANTHROPIC_API_KEY": "sk-ant-0123456789abcdef",
        "IKIGAI_TOOLS_ENABLED": "true",
    }


def saved_parts(account: Account) -> str:
    with psycopg.connect(account.dsn) as other:
        return "".join(parts for (parts,) in other.execute("select parts::text from drafts").fetchall())


def test_search_is_printed_stored_counted_and_exported(account: Account, wire: Wire):
    other = f'[providers.wire]\nbase_url = "{wire.server.base_url}"\n'
    account.configure(f"[tools]\nvendor_search = true\n{other}")
    env = environment(wire)
    wire.answers(SEARCHED, SEARCHED, "No.")
    text = account.run("-m", MODEL, "-c", "-p", "News?", **env).stdout
    assert text == 'I search.\n\nIt is new. Good.\n\n[1] Köln "today" https://example.org/köln?a=1\n'
    record = json.loads(account.run("-m", MODEL, "-c", "-p", "--json", "More?", **env).stdout)
    assert record["sources"] == [{"url": "https://example.org/köln?a=1", "title": 'Köln "today"'}]
    assert record["usage"]["searches"] == 1
    assert [data["hosted"] for _, _, data in account.rows("tool_call", "tool_result")] == [MODEL] * 4
    total = json.loads(account.run("usage", "--json", **env).stdout)["total"]
    assert total["searches"] == 2
    with psycopg.connect(account.dsn) as other:
        found = other.execute("select url, title from citations").fetchall()
    assert found == [("https://example.org/köln?a=1", 'Köln "today"')] * 2
    exported = account.run("history", "export", "--format", "md", **env).stdout
    assert '1. Köln "today" <https://example.org/köln?a=1>' in exported and "news of Köln" in exported
    account.run(*WIRE, "-c", "-p", "And now?", **env)
    assert "vendor_search: news of Köln; found:" in json.dumps(wire.requests[-1].json, ensure_ascii=False)


def test_search_on_screen_is_the_same_anew_and_survives_a_kill(account: Account, wire: Wire):
    env = environment(wire)
    wire.answers(SEARCHED)
    with account.terminal("-m", MODEL, env=env) as program:
        program.ready()
        program.say("/tools on vendor_search")
        program.wait_for("charges for")
        program.say("News?")
        program.wait_for(SOURCE)
        program.settled()
        words = program.words()
        places = [words.index(each) for each in SHOWN]
        assert places == sorted(places) and all(words.count(each) == 1 for each in SHOWN)
        body = messages_wire.sse(*claude_events())
        wire.answers(Answer(body, cut=body.index(b"web_search_tool_result"), end="hang"))
        program.say("Again?")
        program.wait_for("Searching the web: news of Köln")
        program.wait(lambda: "hosted" in saved_parts(account), "the search in the draft")
        program.kill()
    with account.terminal("-c", env=env) as program:
        program.ready()
        program.wait_for("cut off: ikigai was killed here")
        words = program.words()
        assert words.count(CALL) == 2
        assert [words.index(each) for each in SHOWN] == sorted(words.index(each) for each in SHOWN)
