"""Tests of export and import over the whole program: files, refusals, and /export at the terminal."""

import json
import os
import signal
import stat

from tests.e2e.account import ECHO, Account, figures_of, lines_of, refused


def files(account: Account) -> set[str]:
    return {path.name for path in account.home.iterdir() if path.is_file()}


def test_export_and_import(account: Account):
    refused(account.run("history", "export"), 2, "There is no agent that you used last")
    account.say("first **words**", "second")
    (agent,) = account.agents()
    for form in ("md", "html", "json", "jsonl"):
        done = account.run("history", "export", "-o", f"talk.{form}")
        assert done.stdout == f"talk.{form} holds 8 events of {agent}.\n" and done.stderr == "", done
        file = account.home / f"talk.{form}"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert "second" in file.read_text() and "secret-key" not in file.read_text()
    assert "<strong>words</strong>" in (account.home / "talk.html").read_text()
    assert (
        account.run("history", "export", "--format", "jsonl").stdout.splitlines()[1:-1]
        == ((account.home / "talk.jsonl").read_text().splitlines()[1:-1])
    )
    events = lines_of(account.run("history", "export", "--format", "jsonl", "--from", "#2", "--to", "3").stdout)
    assert [event["id"] for event in events[1:-1]] == [2, 3] and (events[0]["from"], events[0]["to"]) == (2, 3)
    left = files(account)

    refused(account.run("history", "export", "-o", "talk.md"), 1, "talk.md already exists", "--force")
    refused(account.run("history", "export", "-o", "talk.doc"), 2, "talk.doc is not known")
    refused(account.run("history", "export", "-o", "no/where.md"), 1, "cannot be written")
    refused(account.run("history", "export", "--agent", "nobody"), 2, "There is no agent nobody")
    refused(account.run("history", "export", "--from", "900"), 1, "has no events 900-")
    assert account.run("history", "export", "-o", "talk.md", "--force").returncode == 0
    assert files(account) == left, "nothing is left lying about"

    made = account.run("history", "import", "talk.json", "--name", "copy")
    assert made.stdout == "copy is new and has 8 events. Go on with it: ikigai -r copy\n", made
    again = json.loads(account.run("history", "export", "--agent", "copy", "--format", "json").stdout)
    whole = json.loads((account.home / "talk.json").read_text())
    assert [(event["kind"], event.get("content"), event["at"]) for event in again["events"]] == [
        (event["kind"], event.get("content"), event["at"]) for event in whole["events"]
    ]
    ends = [event["data"]["first"] for event in again["events"] if event["kind"] == "turn_end"]
    assert ends == [event["id"] for event in again["events"] if event["kind"] == "user"]
    assert account.run(*ECHO, "-c", "-p", "still the first").returncode == 0
    assert account.run(*ECHO, "-r", "copy", "-c", "-p", "third").stdout == "third\n"
    assert account.endings() == ["completed"] * 6
    rows = len(account.rows())
    lines = (account.home / "talk.jsonl").read_text()
    for name, text, why in (
        ("cut.jsonl", lines[:-20], "line "),
        ("changed.jsonl", lines.replace("words", "wards"), "damaged or was changed"),
        ("other.json", "{}", "not a history that ikigai exported"),
        ("talk.jsonl", None, "already"),
    ):
        if text is not None:
            (account.home / name).write_text(text)
        refused(account.run("history", "import", name, "--name", "new" if text else "copy"), 1, why)
    refused(account.run("history", "import", "nothing.json"), 2, "cannot be read")
    refused(account.run("history", "import", str(account.home)), 2, "cannot be read")
    os.mkfifo(account.home / "pipe.json")
    refused(account.run("history", "import", "pipe.json"), 2, "not a regular file")
    assert len(account.rows()) == rows and account.agents() == [agent, "copy"]

    head, *events = lines.splitlines()[:-1]
    unchecked = [head.replace(',"checksum":"sha256"', ""), *events, '{"count":8}']
    (account.home / "by-hand.jsonl").write_text("\n".join(unchecked))
    made = account.run("history", "import", "by-hand.jsonl", "--name", "hand")
    assert made.returncode == 0 and "has 8 events. The file has no checksum" in made.stdout, made


def test_imported_history_without_turn_ends_opens_at_once(account: Account):
    """A converter writes such a file: it opens at once, and the window slides over it."""
    said = [("user", "assistant")[n % 2] for n in range(3_000)]
    rows = [
        {"id": n, "at": "2026-01-01T00:00:00Z", "kind": kind, "content": f"{n} {'word ' * 40}"}
        for n, kind in enumerate(said, 1)
    ]
    lines = [{"format": "ikigai-history", "version": 1}, *rows, {"count": len(rows)}]
    (account.home / "made.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    made = account.run("history", "import", "made.jsonl", "--name", "made")
    assert made.stdout == (
        "made is new and has 4,500 events. 1,500 turns had no end: added. The file has no checksum, so damage "
        "could not be detected. Go on with it: ikigai -r made\n"
    )
    assert account.run(*ECHO, "-r", "made", "-c", "-p", "on").stdout == "on\n"
    shown = figures_of(account.run(*ECHO, "-r", "made", "-c", "-p", "/context", "--output-format", "json"))
    assert 0 < shown["used"] <= shown["ceiling"] and shown["turns_out"] > 500, shown
    assert shown["messages_out"] == 2 * shown["turns_out"]
    with account.terminal(*ECHO, "-r", "made") as program:
        program.ready()
        assert f"{shown['turns_out']:,} out" in program.status()
        program.leave()
    assert set(account.endings()) == {"completed"}
    bad = [*lines[:7], {**rows[6], "content": "\u0000"}, *lines[8:]]
    (account.home / "bad.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in bad))
    refused(account.run("history", "import", "bad.jsonl"), 1, "line 8: `content` contains a character")


EVENTS = 2_000


def test_ctrl_c_leaves_no_half_file(account: Account):
    assert account.run(*ECHO, "-c", "-p", "hello").returncode == 0
    lines = account.run("history", "export", "--format", "jsonl").stdout.splitlines()
    head, event = lines[0].replace(',"checksum":"sha256"', ""), json.loads(lines[1])
    rows = [json.dumps({**event, "id": n, "content": f"**{n}** " * 100}) for n in range(1, EVENTS + 1)]
    (account.home / "long.jsonl").write_text("\n".join((head, *rows, f'{{"count":{EVENTS}}}', "")))
    at_once = "tests.e2e.at_once"
    with account.terminal("history", "import", "long.jsonl", "--name", "long", module=at_once) as program:
        program.wait(lambda: b" %" in program.raw, "the bar")
        program.wait_for(f"long is new and has {EVENTS:,} events.")
        assert program.ended() == 0 and "█" not in program.text(), "the bar is gone"
    before, export = files(account), ("history", "export", "--agent", "long", "-o", "long.html")
    with account.terminal(*export, module=at_once, env={"HOLD": "yes"}) as program:
        program.wait(lambda: b" %" in program.raw, "the middle of the export")
        program.process.send_signal(signal.SIGINT)
        assert program.ended() == 130
    assert files(account) == before


def test_at_the_terminal(account: Account):
    with account.terminal(*ECHO, columns=120) as program:
        program.ready()
        program.say("hello there")
        program.wait(lambda: account.turns() == ["completed"], "the end of the turn")
        program.settled()
        program.say("/export my talk.md")
        program.wait_for("my talk.md holds")
        program.say("/export my talk.md")
        program.wait_for("already exists")
        program.say("/export --force my talk.md 2-3")
        program.wait_for("holds 2 events")
        program.say("/export talk")
        program.wait_for("'talk' has no suffix")
        program.leave()
    assert [path.name for path in account.home.glob("*.md")] == ["my talk.md"]
    assert stat.S_IMODE((account.home / "my talk.md").stat().st_mode) == 0o600


def test_to_a_pipe_that_nobody_reads(account: Account):
    assert account.run(*ECHO, "-c", "-p", "hello").returncode == 0
    done = account.shell("set -o pipefail; ikigai history export --format json | true; echo ${PIPESTATUS[0]}")
    assert done.stdout.strip() in ("0", "141") and "Traceback" not in done.stderr
