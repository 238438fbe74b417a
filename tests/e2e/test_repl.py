"""Tests of the REPL in a real terminal: the screen, the keys and the answers."""

import contextlib
import os
import re
import select
import signal
import socket
from pathlib import Path

import psycopg
import pytest

from tests.core.test_sanitize import every, forbidden
from tests.e2e.account import ECHO, WIRE, Account, Wire
from tests.e2e.program import PATIENCE, Program
from tests.support.invariants import check
from tests.support.wire_server import Answer, completion
from tests.terminal.modes import ENTER

# -- the talk goes on --------------------------------------------------------------------------------------------


def test_quit_and_come_back(account: Account):
    with account.terminal(*ECHO) as program:
        program.ready().say("hello there")
        program.wait_for("● hello there")
        program.leave()
    with account.terminal(*ECHO) as program:
        program.ready().wait_for("● hello there")
        assert said(program) == ["❯ hello there", "● hello there"]
        program.say("and on")
        program.wait_for("● and on")
        program.leave()
        assert said(program) == ["❯ hello there", "● hello there", "❯ and on", "● and on"]
    assert account.endings() == ["completed"] * 2 and len(account.agents()) == 1


def said(program: Program) -> list[str]:
    """Return the lines of the conversation on the screen, without the input."""
    lines = [line for line in program.scrollback() if line.startswith(("❯ ", "● "))]
    return lines if program.process.poll() is not None else lines[: len(lines) - (program.input() != "")]


def test_message_on_the_command_line_is_sent(account: Account):
    with account.terminal(*ECHO, "good", "morning") as program:
        program.ready().wait_for("● good morning")
        program.leave()
    assert account.said("user") == ["good morning"]


def test_keys_typed_before_it_is_ready(account: Account):
    with account.terminal(*ECHO) as program:
        program.type("early bird\r")
        program.wait_for("● early bird")
        program.leave()
    assert account.said("user") == ["early bird"]


def test_connection_is_open_before_the_message_is_sent(account: Account):
    answer = completion("Hi.").body
    server = socket.create_server(("127.0.0.1", 0))
    account.configure(f'[providers.wire]\nbase_url = "http://127.0.0.1:{server.getsockname()[1]}/v1"\n')
    with server, account.terminal(*WIRE) as program:
        server.settimeout(0.2)
        program.ready()
        typed = ""
        while True:
            program.type("o")
            typed += "o"
            with contextlib.suppress(TimeoutError):  # until the SDK is loaded
                connection, _ = server.accept()
                break
        with connection:
            connection.settimeout(PATIENCE)
            assert connection.recv(1 << 16).startswith(b"HEAD / ")
            connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            connection.settimeout(0.3)
            with pytest.raises(TimeoutError):
                connection.recv(1)
            assert account.said("user") == []
            connection.settimeout(PATIENCE)
            program.type("\r")
            assert connection.recv(1 << 16).startswith(b"POST /v1/chat/completions ")
            assert account.said("user") == [typed]  # stored before it is sent
            head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {len(answer)}\r\n\r\n"
            connection.sendall(head.encode() + answer)
            program.wait_for("● Hi.")
        program.leave()
    assert account.endings() == ["completed"]


def test_context_rule_is_where_the_next_request_begins(account: Account, wire: Wire):
    budget = {"IKIGAI_SLIDING_CONTEXT_TOKENS": "120"}
    with account.terminal(*WIRE, env=budget) as program:
        program.ready()
        for n in range(1, 8):
            program.say(f"question {n} about things")
            program.wait_for(f"● You said: question {n} about things")
            program.wait(lambda n=n: len(account.turns()) == n, "the end of the turn")
        program.leave()
        lines = [line for line in program.scrollback() if line.startswith(("❯ q", "─"))]
    begins, out, moved = "question 1 about things", 0, 0  # where the context does, as the screen says
    requests = iter(range(7))
    for line in lines:
        if rule := re.search(r'─ (\d+) out, \d+ now \(.*\) · "(.*)" ─', line):
            assert int(rule[1]) > out, "each rule tells of another place"
            begins, out, moved = rule[2], int(rule[1]), moved + 1
        else:
            assert first_kept(wire, number := next(requests)) == (begins, out), f"request {number + 1}"
    assert moved >= 3
    with account.terminal(*WIRE, env=budget) as program:
        program.ready().wait_for("question 7")
        lines = [line for line in program.scrollback() if line.startswith(("❯ q", "●", "─"))]
        (at,) = [n for n, line in enumerate(lines) if line.startswith("─")]
        program.say("question 8 about things")
        program.wait_for("● You said: question 8 about things")
        kept, out = first_kept(wire)
        assert lines[at + 1] == f"❯ {kept}" and f'{out} turns out · context begins: "{kept}"' in lines[at]
        program.leave()
    assert account.endings() == ["completed"] * 8


def first_kept(wire: Wire, number: int = -1) -> tuple[str, int]:
    """Return the first message of a request, and the number of turns that its notice says are left out."""
    spoken = [message["content"] for message in wire.messages(number)]
    if notice := re.fullmatch(r"\[conversation truncated — (\d+) older messages omitted\]", spoken[0]):
        return spoken[1], int(notice[1]) // 2
    return spoken[0], 0


def test_budget_belongs_to_the_agent(account: Account, wire: Wire):
    with account.terminal(*WIRE) as program:
        program.ready()
        for command, told in (("/budget 50k", "Budget: 50k tokens"), ("/system Be brief.", "System: changed")):
            program.say(command)
            program.wait_for(told)
        program.leave()
    with account.terminal() as program:
        program.ready().say("/model wire/other:low")
        program.wait_for("Model: wire/other")
        program.leave()
    with account.terminal() as program:
        program.ready()
        assert "wire/other:low · ctx" in program.status() and "/50k" in program.status()
        program.say("hi")
        program.wait_for("● You said: hi")
        assert wire.requests[-1].json["model"] == "other"
        assert wire.messages()[0] == {"role": "system", "content": "Be brief."}
        program.say("/model default")
        program.wait_for("Model: default")
        program.leave()
    assert account.endings() == ["completed"]


# -- commands ----------------------------------------------------------------------------------------------------


def test_commands(account: Account):
    with account.terminal(*ECHO, columns=120, rows=50) as program:
        program.ready()
        for command, told in (
            ("/help", "/exit"),
            ("/help mark", "Usage: /mark [label]"),
            ("/system", "There is no system prompt."),
            ("/budget", "100k (from default)"),
            ("/status", "model limit"),
            ("/config start_with", "start_with = "),
        ):
            program.say(command)
            program.wait_for(told)
        program.say("/moddel")
        program.wait_for("There is no command '/moddel'. Did you mean /model?")
        program.wait_for_input("")
        program.type("\x1b[A")
        program.wait_for_input("/moddel")
        program.type("\x15")
        program.wait_for_input("")
        program.leave()
    assert not account.rows(), "none of these is an event"


def test_mark_rewind_and_clear(account: Account, wire: Wire):
    with account.terminal(*WIRE, columns=120) as program:
        program.ready()
        say(program, account, "one")
        program.say("/mark here")
        program.wait_for("· Mark here set. /rewind here returns here.")
        say(program, account, "two")
        program.say("/rewind nowhere")
        program.wait_for('There is no mark "nowhere". Marks, newest first: here. Esc Esc chooses a message')
        program.type("\x15")
        program.say("/mark here too")
        program.wait_for("Mark here too set.")
        program.say("/rewind")
        program.wait_for("▌ here too  0 turns after it")
        program.type("\x1b[B")
        program.wait_for("▌ here  1 turn after it")
        program.type("\r")
        program.wait_for("· Rewound to mark here:")
        say(program, account, "three")
        assert [message["content"] for message in wire.messages()] == ["one", "You said: one", "three"]
        program.say("/clear")
        program.wait_for("· Context cleared: the next request starts empty. The history stays. To undo this: /undo")
        program.wait_for("─ context begins here ─")
        program.leave()
    with account.terminal(*WIRE, columns=120) as program:
        program.ready().wait_for("─ context begins here ─")
        say(program, account, "four")
        assert [message["content"] for message in wire.messages()] == ["four"]
        assert said(program)[-8:] == [
            line for word in ("one", "two", "three", "four") for line in (f"❯ {word}", f"● You said: {word}")
        ]
        program.leave()
    assert account.endings() == ["completed"] * 4


def say(program: Program, account: Account, text: str) -> None:
    """Send a message, and wait until its turn has ended and is on the screen."""
    turns = len(account.turns())
    program.say(text)
    program.wait(lambda: len(account.turns()) == turns + 1, "the end of the turn")
    program.wait_for(f"● You said: {text}")
    program.settled()


def test_new_and_switch(account: Account, wire: Wire):
    with account.terminal(*WIRE, columns=120) as program:
        program.ready()
        (first,) = account.agents()
        say(program, account, "in the first")
        program.type(f"/new second{ENTER}quickly typed\r")
        program.wait_for("● You said: quickly typed")
        program.settled()
        assert program.status().startswith("  second · ")
        assert [message["content"] for message in wire.messages()] == ["quickly typed"]
        program.say("/new second")
        program.wait_for("There is an agent named second already.")
        program.say("/switch nobody")
        program.wait_for("There is no agent nobody.")
        program.say("/switch second")
        program.wait_for("second is already on the screen.")
        program.say(f"/switch {first}")
        program.wait(lambda: program.status().startswith(f"  {first} · "), "the first agent")
        say(program, account, "back again")
        assert [message["content"] for message in wire.messages()] == [
            "in the first", "You said: in the first", "back again",
        ]  # fmt: skip
        program.leave()
    assert account.agents() == [first, "second"] and account.endings() == ["completed"] * 3


def test_two_programs_on_one_agent(account: Account):
    with account.terminal(*ECHO, columns=120) as program:
        program.ready().say("mine")
        program.wait_for("● mine")
        (name,) = account.agents()
        with account.terminal(*ECHO, columns=120) as second:
            second.ready()
            holder = f"{os.uname().nodename}, pid {program.process.pid}"
            second.wait_for(f"⚠ {name} is open in another terminal ({holder}); you only watch it here.")
            second.wait_for("● mine")
            second.say("yours")
            second.wait(lambda: second.words().count("/new starts a conversation, /fork") == 2, "the refusal")
            second.wait_for_input("yours")
            second.type("\x15")
            second.say("/new beside")
            second.wait(lambda: second.status().startswith("  beside · "), "the new agent")
            second.say("yours")
            second.wait_for("● yours")
            second.leave()
        program.leave()
    assert account.said("user") == ["mine", "yours"] and account.agents() == [name, "beside"]
    check(account.dsn)


def test_agent_is_writable_again_when_the_other_program_has_ended(account: Account):
    with account.terminal(*ECHO, columns=120) as program:
        program.ready().say("mine")
        program.wait_for("● mine")
        (name,) = account.agents()
        with account.terminal(*ECHO, columns=120) as second:
            second.ready().wait_for("you only watch it here")
            program.leave()
            second.say(f"/switch {name}")
            second.wait(lambda: second.status().startswith(f"  {name} · "), "the agent")
            second.say("yours")
            second.wait_for("● yours")
            second.say(f"/switch {name}")
            second.wait_for(f"{name} is already on the screen.")
            second.leave()
    assert account.said("user") == ["mine", "yours"]
    check(account.dsn)


def test_prompt_history_of_a_fork_includes_its_ancestors(account: Account):
    account.say("one", "two")
    with psycopg.connect(account.dsn) as connection:
        connection.execute(
            "insert into agents (id, name, parent, forked_at) "
            "select gen_random_uuid(), 'child', id, (select max(id) from messages) from agents"
        )
    with account.terminal(*ECHO, "-r", "child") as program:
        program.ready().wait_for("● two")
        assert "not shown again" not in program.text()
        program.leave()


def test_no_model_yet(account: Account):
    with account.terminal(columns=120) as program:
        program.ready()
        program.wait_for("/login anthropic connects a real model.")
        program.say("hello")
        program.wait_for("in a shell: ikigai login anthropic")
        program.wait_for_input("hello")
        program.type("\x15")
        program.say("/model scripted/echo")
        program.wait_for("Model: scripted/echo")
        program.type("\x1b[A\x1b[A\r")  # what was typed before is in the history
        program.wait_for("● hello")
        program.leave()


def test_configured_model_without_its_key_is_reported(account: Account):
    account.configure('model = "openai/gpt-5-mini"\n')
    with account.terminal(columns=120) as program:
        program.ready()
        program.wait_for(
            "⚠ There is no key for OpenAI. Store one with `ikigai login openai` or /login openai, set OPENAI_API_KEY"
        )
        program.say("/model scripted/echo")
        program.wait_for("Model: scripted/echo")
        program.say("hello")
        program.wait_for("● hello")
        program.leave()


# -- while it streams --------------------------------------------------------------------------------------------


def hanging(text: str) -> Answer:
    """Return a reply that says `text`, and then nothing more."""
    answer = completion(text)
    answer.cut, answer.end = answer.body.rindex(b"data: ", 0, answer.body.index(b'"finish_reason":"stop"')), "hang"
    return answer


@pytest.mark.ordinary("Esc")
@pytest.mark.parametrize("key", ["\x1b", "\x03"], ids=["Esc", "Ctrl+C"])
def test_turn_is_interrupted_by_a_key(account: Account, wire: Wire, key: str):
    wire.answers(hanging("The first half of"))
    with account.terminal(*WIRE) as program:
        program.ready().say("go")
        program.wait_for("● The first half of")
        program.type(key)
        program.wait_for("✗ interrupted")
        program.wait(lambda: account.turns() == ["interrupted"], "the end of the turn")
        assert account.said("assistant") == ["The first half of"]
        program.say("go on")
        program.wait_for("● You said: go on")
        program.leave()
        assert said(program)[:2] == ["❯ go", "● The first half of"]
    assert [message["role"] for message in wire.messages()] == ["user", "assistant", "user"]
    assert wire.messages()[1]["content"] == "The first half of"
    assert account.endings() == ["interrupted", "completed"]


def test_queued_messages(account: Account):
    with account.terminal(*account.script(["Busy", {"do": "hang"}])) as program:
        program.ready().say("go")
        program.wait_for("● Busy")
        for text in ("first queued", "second queued"):
            program.say(text)
            program.wait_for(f"next: {text}")
        program.type("\x1b[A")
        program.wait_for_input("second queued")
        program.type(" and changed\r")
        program.wait_for("next: second queued and changed")
        assert account.said("user") == ["go"]
        program.type("\x1b")
        program.wait_for("✗ interrupted")
        program.wait(lambda: "second queued and changed" in program.input(), "the messages given back")
        assert "first queued" in program.input()
        program.type("\x03")
        program.leave()
    assert account.said("user") == ["go"] and account.endings() == ["interrupted"]


def test_queued_message_is_sent_when_the_turn_ends(account: Account):
    slow = ["Slow ", {"do": "pause", "seconds": 1.5}, "and steady."]
    with account.terminal(*account.script(slow, "Done.")) as program:
        program.ready().say("go")
        program.wait_for("● Slow")
        program.say("next one")
        program.wait_for("● Done.")
        program.leave()
        assert said(program) == ["❯ go", "● Slow and steady.", "❯ next one", "● Done."]
    assert account.endings() == ["completed"] * 2


# -- the terminal ------------------------------------------------------------------------------------------------


@pytest.mark.ordinary("*-streaming", "Ctrl+C twice-idle")
@pytest.mark.parametrize("streaming", [False, True], ids=["idle", "streaming"])
@pytest.mark.parametrize(
    ("way", "code"),
    [("/exit\r", 0), ("\x04", 0), ("\x03\x03", 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)],
    ids=["exit", "Ctrl+D", "Ctrl+C twice", "SIGTERM", "SIGHUP", "SIGINT"],
)
def test_every_way_out(account: Account, way: str | signal.Signals, code: int, streaming: bool):
    with account.terminal(*account.script(["Half", {"do": "hang"}])) as program:
        program.ready()
        if streaming:
            program.say("go")
            program.wait_for("● Half")
        if streaming and way == "\x03\x03":
            program.type("\x03")
            program.wait_for("✗ interrupted")
        if streaming and way == "\x04":
            program.type("\x04")
            program.wait_for("Ctrl+D again")
        if isinstance(way, str):
            program.type(way)
        else:
            program.process.send_signal(way)
        assert program.ended() == code
        program.assert_restored()
        assert "Traceback" not in program.text() and "ctx" not in program.text()
    assert account.endings() == ["interrupted"] * streaming
    assert account.said("assistant") == ["Half"] * streaming


def test_internal_error_ends_the_program_cleanly(account: Account):
    with account.terminal(*ECHO, module="tests.e2e.buggy", columns=200) as program:
        program.ready().type("\x03")
        assert program.ended() == 1
        program.assert_restored()
        text = program.text()
    assert "Traceback" not in text and text.count("ikigai: ") == 1
    assert "ikigai failed with an internal error (ZeroDivisionError). The details are in " in text
    assert "ZeroDivisionError" in account.log_file()


def test_internal_error_in_the_agent_loop_keeps_the_typed_text(account: Account):
    with account.terminal(*ECHO, module="tests.e2e.buggy", columns=200) as program:
        program.ready().say("hello")
        program.wait_for("Something in ikigai itself went wrong. The log file has the details; start again.")
        program.leave()
    assert "ZeroDivisionError" in account.log_file()
    assert account.run(*ECHO, "-c", "-p", "after").returncode == 0
    assert account.said("user") == ["hello", "after"] and account.endings() == ["interrupted", "completed"]


def test_leaving_does_not_wait_for_a_database_that_hangs(account: Account):
    with account.terminal(*ECHO) as program:
        program.ready().say("one")
        program.wait(lambda: "↓1" in program.status(), "the end of the turn, which the program knows, too")
        with account.stopped():
            program.type("\x04")
            assert program.ended() == 0
        program.assert_restored()


def test_program_ends_when_the_terminal_hangs_up(account: Account):
    with account.terminal(*ECHO) as program:
        program.ready()
        pid = program.process.pid
        program.hang_up()
        assert program.process.wait(60) == 129
    assert not Path(f"/proc/{pid}").exists()
    assert account.run(*ECHO, "-c", "-p", "after").stdout == "after\n"


@pytest.mark.ordinary("dumb", "colour")
@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {}], ids=["NO_COLOR", "dumb", "colour"])
def test_colours(account: Account, env: dict[str, str]):
    reply = "# A title\n\nWith `code` and **bold** words.\n\n```python\nprint(1)\n```\n"
    with account.terminal(*account.script(reply), env=env) as program:
        if "TERM" in env:
            program.wait_for("❯")
            program.type("show me\r")
        else:
            program.ready().say("show me")
        program.wait_for("print(1)")
        program.type("/nonsense\r")
        program.wait_for("no command '/nonsense'")
        program.type("\x15")
        program.type("/exit\r")
        assert program.ended() == 0
        program.assert_restored()
    codes = {code for found in re.findall(rb"\x1b\[([\d;]*)m", program.raw) for code in found.split(b";")}
    coloured = {code for code in codes if re.fullmatch(rb"3\d|4\d|9\d|10\d", code)}
    assert bool(coloured) == (env == {})
    if "TERM" in env:
        assert b"\x1b" not in program.raw


def test_terminal_never_obeys_words_of_a_model(account: Account):
    """In a locale that knows ASCII alone; every character that a terminal obeys or hides, in words and in code."""
    bad = "".join(char for char in every() if forbidden(char) and char != "\r" and not "\ud800" <= char <= "\udfff")
    reply = "Safe \x1b]0;pwned\x07\x1b[2J\x9b31m\x1b]52;c;cHduZWQ=\x07words\u202e."
    each_way = "\n\n".join(
        ("Every " + "é".join(bad), f"```python\n{'é'.join(bad)}\n```", f"| a |\n|---|\n| {bad} |", "Last.")
    )
    with account.terminal(*account.script(reply, each_way), env={"LANG": "C", "LC_ALL": "C"}) as program:
        program.ready().type("\x1b[200~go \u202e\x9d\x1b[201~")
        program.wait_for("❯ go <U+202E><U+009D>")
        program.type("\r")
        program.wait_for("words")
        program.settled()
        program.say("árvíz 日本")
        program.wait(lambda: any("Last." in line for line in program.lines()), "the end of it")
        program.settled()
        shown = program.words().replace(" ", "")
        assert "<U+E0041>" in shown and "<U+0085>" in shown and "❯árvíz日本" in shown
        program.leave()
    ours = rb"\x1b\](?:2;[a-z-]+ \xc2\xb7 (?:idle|working)|133;(?:A;redraw=0|B|C|D;0)|11;\?)\x1b\\"
    foreign = re.sub(ours, b"", program.raw)
    assert not re.search(rb"\x1b\]|\xc2\x9b|\xc2\x9d|\xe2\x80\xae|\x1b\[2J", foreign)
    written = re.sub(r"\x1b(\[[\d;?]*[A-Za-z]|[78])", "", foreign.decode())
    assert not {*written} & {*bad}
    assert "\x1b]0;pwned" in account.said("assistant")[0], "the log keeps what was said"
    assert account.said("user")[1] == "árvíz 日本"


def test_first_screen_gives_way_to_the_answer_of_a_command(account: Account):
    with account.terminal(*ECHO) as program:
        program.ready()
        program.wait_for("? keys · /help commands")
        program.say("/status")
        program.wait_for("model limit")
        program.wait(lambda: "? keys · /help commands" not in program.text(), "the end of the first screen")
        program.leave()


def test_question_mark_prints_the_keys_once(account: Account):
    with account.terminal(*ECHO) as program:
        program.ready().type("?")
        program.wait_for("put the draft aside")
        program.type("?")
        program.wait(lambda: "The keys are listed above" in program.status(), "the hint")
        assert program.text().count("put the draft aside") == 1
        program.say("next")
        program.wait_for("● next")
        program.settled()
        program.type("?")
        program.wait(lambda: program.text().count("put the draft aside") == 2, "the keys again")
        program.leave()


def test_first_key_loads_the_sdk_which_then_connects(account: Account):
    with socket.create_server(("127.0.0.1", 0)) as server:
        account.configure(f'[providers.near]\nbase_url = "http://127.0.0.1:{server.getsockname()[1]}/v1"\n')
        with account.terminal("-m", "near/x", "--new", module="tests.e2e.unhurried") as program:
            program.ready()

            def has_connected() -> bool:
                program.type("a")
                return bool(select.select([server], [], [], 0)[0])

            program.wait(has_connected, "a connection to the server")
