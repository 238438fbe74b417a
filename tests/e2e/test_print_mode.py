"""Tests of print mode over the real program: its output, the log, and the exit code."""

import json
import os
import signal
import subprocess
import unicodedata
from pathlib import Path

import pytest

from ikigai.core.errors import EXIT_CODES
from tests.e2e.account import ECHO, WIRE, Account, Wire, lines_of, refused
from tests.support.invariants import check
from tests.support.wire_server import Answer, completion, failure

RESULT = {"type", "text", "agent", "agent_id", "model", "usage", "turn", "stop"}


def test_text(account: Account):
    result = account.run(*ECHO, "-p", "hello", "there")
    assert (result.stdout, result.stderr, result.returncode) == ("hello there\n", "", 0)
    assert account.said("user", "assistant") == ["hello there", "hello there"]
    assert account.endings() == ["completed"]


def test_text_for_a_terminal_is_made_safe(account: Account):
    model = account.script("Safe \x1b]0;pwned\x07\x1b[2Jwords.")
    with account.terminal(*model, "-p", "go") as program:
        assert program.ended() == 0
        assert program.raw.strip() == b"Safe words."
        program.assert_restored()


def test_text_for_a_pipe_is_made_safe(account: Account):
    model = account.script("Safe \x1b]0;pwned\x07\x1b[2Jwords. \x9b31m\u202e 👩\u200d💻")
    assert account.run(*model, "-p", "go").stdout == "Safe words. <U+202E> 👩\u200d💻\n"
    assert account.run(*model, "-p", "go", "--output-format", "text").stdout == "Safe words. <U+202E> 👩\u200d💻\n"
    assert account.run(*ECHO, "-p", "ends in \x1b[3").stdout == "ends in <U+001B>[3\n"


def test_raw_text_is_written_as_it_is(account: Account):
    said = "Safe \x1b]0;pwned\x07\x1b[2Jwords. \x9b31m\u202e"
    assert account.run(*account.script(said), "-p", "--raw", "go").stdout == f"{said}\n"


@pytest.mark.ordinary("arguments0", "arguments2", "arguments3")
@pytest.mark.parametrize(
    "arguments", [("-p", "--json"), ("-p", "--output-format", "json"), ("-p", "--output-format", "stream-json"), ()]
)
def test_raw_is_refused_except_for_text_of_print_mode(account: Account, arguments: tuple[str, ...]):
    refused(account.run(*ECHO, *arguments, "--raw", "go"), 2, "--raw only applies to the text output of print mode.")
    assert account.rows("user") == []


@pytest.mark.ordinary("stream-json")
@pytest.mark.parametrize("format", ["json", "stream-json"])
def test_json_escapes_what_a_terminal_obeys(account: Account, format: str):
    said = "a \x1b[2J\x07\x7f\x9b31m\x9d0;x\x9c\u2028\u202e b"
    out = account.run(*account.script(said), "-p", "go", "--output-format", format).stdout
    assert not any(char != "\n" and unicodedata.category(char) in ("Cc", "Cf", "Zl") for char in out)
    assert json.loads(out.splitlines()[-1])["text"] == said


def test_questions_and_notices_are_made_safe(account: Account):
    assert account.run(*ECHO, "-c", "-p", "danger \x1b]0;title\x07 \u202e zone").returncode == 0
    told = account.run(*ECHO, "-c", "-p", "/forget last 1").stderr
    assert "danger" in told and "zone" in told and not {"\x1b", "\x07", "\u202e"} & {*told}


def test_text_that_ends_its_line_gets_no_second_one(account: Account):
    assert account.run(*ECHO, "-p", "two\nlines\n").stdout == "two\nlines\n"


def test_json(account: Account):
    made = json.loads(account.run(*ECHO, "-p", "hello", "--output-format", "json").stdout)
    assert set(made) == RESULT
    assert (made["text"], made["model"], made["stop"]) == ("hello", "scripted/echo", "end")
    assert [made["agent"]] == account.agents()
    assert set(made["usage"]) == {
        "input",
        "output",
        "cached",
        "written",
        "thinking",
        "searches",
        "cost",
        "unpriced",
        "at_least",
    }
    assert made["usage"]["input"] > 0
    (began,) = [data["first"] for _, _, data in account.rows("turn_end")]
    assert made["turn"] == began


def test_json_of_a_turn_that_failed_says_why(account: Account, wire: Wire):
    wire.answers(failure(400, "no"))
    result = account.run(*WIRE, "-p", "hello", "--output-format", "json")
    refused(result, 1, "wire refused the request (400): no.")
    made = json.loads(result.stdout)
    assert set(made) == {*RESULT, "reason"}
    assert made["stop"] == "failed" and made["reason"] in result.stderr


def test_json_of_a_refusal_without_words(account: Account, wire: Wire):
    wire.answers(completion("", finish="content_filter"))
    result = account.run(*WIRE, "-p", "hello", "--output-format", "json")
    made = json.loads(result.stdout)
    assert (made["text"], made["stop"], made["reason"]) == ("", "refused", "The model refused to answer.")
    assert (result.stderr, result.returncode) == ("ikigai: The model refused to answer.\n", 1)


@pytest.mark.parametrize(
    "answer",
    [
        completion("", thinking="Hm."),
        completion(""),
        completion(" \n"),
        completion("", finish="tool_calls"),
        completion("", finish="eos"),
    ],
)
def test_reply_without_text_is_told_and_is_no_answer(account: Account, wire: Wire, answer: Answer):
    wire.answers(answer)
    result = account.run(*WIRE, "-p", "hello", "--json")
    assert (result.stderr, result.returncode) == ("ikigai: The model sent no text.\n", 1)
    assert json.loads(result.stdout)["reason"] == "The model sent no text."
    assert account.endings() == ["completed"]


@pytest.mark.ordinary("No.-*", "Half a-*")
@pytest.mark.parametrize(
    ("said", "finish", "code", "words"),
    [
        ("No.", "content_filter", 1, "The model refused to answer."),
        ("Half a", "length", 0, "The reply was cut off at its length limit."),
        ("", "length", 1, "The reply was cut off at its length limit."),
    ],
)
def test_short_reply_is_explained(account: Account, wire: Wire, said: str, finish: str, code: int, words: str):
    wire.answers(completion(said, finish=finish))
    result = account.run(*WIRE, "-p", "hello")
    assert (result.stdout, result.stderr, result.returncode) == (said and f"{said}\n", f"ikigai: {words}\n", code)
    assert account.endings() == ["completed"]


@pytest.mark.ordinary("text")
@pytest.mark.parametrize("format", ["text", "stream-json"])
def test_half_a_character_in_a_piece(account: Account, wire: Wire, format: str):
    wire.answers(completion("a\ud83d\ude00b", piece=1))
    result = account.run(*WIRE, "-p", "hello", "--output-format", format)
    assert (result.stderr, result.returncode) == ("", 0) and account.endings() == ["completed"]
    assert format != "text" or result.stdout == "a\ufffd\ufffdb\n"


def test_output_replaces_characters_that_its_encoding_lacks(account: Account):
    result = account.run(*ECHO, "-p", "é", PYTHONIOENCODING="ascii")
    assert (result.stdout, result.stderr, result.returncode) == ("?\n", "", 0)
    assert account.said("assistant") == ["é"]


def test_stream_json(account: Account, wire: Wire):
    wire.answers(completion("Some wörds, in small pieces. 記憶", calls=[{"name": "none"}]), "And the end.")
    lines = lines_of(account.run(*WIRE, "-p", "go", "--output-format", "stream-json").stdout)
    assert {line["type"] for line in lines} == {"event", "delta", "result"}
    *before, result = lines
    assert result["type"] == "result" and set(result) == RESULT and result["text"] == "And the end."
    assert all(line["type"] != "result" for line in before)
    events = [line for line in before if line["type"] == "event"]
    stored = account.rows()
    assert [(event["kind"], event["content"] or "", event["data"] or {}) for event in events] == stored
    assert [kind for kind, _, _ in stored] == [
        "user", "assistant", "tool_call", "usage", "tool_result", "assistant", "usage", "turn_end",
    ]  # fmt: skip
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert result["turn"] == events[0]["id"]
    deltas = "".join(line["text"] for line in before if line["type"] == "delta")
    assert deltas == "".join(account.said("assistant")) == "Some wörds, in small pieces. 記憶And the end."


def test_piped_input_follows_the_prompt(account: Account):
    assert account.run(*ECHO, "-p", "review", input="a\nb\n").stdout == "review\n\na\nb\n"
    assert account.run(*ECHO, input="piped alone\n").stdout == "piped alone\n"
    assert account.said("user") == ["review\n\na\nb", "piped alone"]


def test_files_are_attached(account: Account):
    (account.home / "main.py").write_text("print('hi')\n")
    said = account.run(*ECHO, "-p", "explain", "@main.py", "please").stdout
    assert said == "explain @main.py please\n\n<file name=\"main.py\">\nprint('hi')\n</file>\n"
    assert account.run(*ECHO, "-p", "explain @main.py please").stdout == said
    assert account.said("user") == ["explain @main.py please"] * 2


@pytest.mark.ordinary("missing.txt-*", "binary-*", "pipe-*")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing.txt", "There is no file or folder missing.txt."),
        ("binary", "binary is a binary file: byte 0x00 at offset 5 of 6 bytes."),
        ("pic.bmp", "pic.bmp is not a PNG, JPEG, WebP or GIF."),
        ("pipe", "pipe is a pipe, not a file."),
        ("pipe.png", "pipe.png is a pipe, not a file."),
        ("/dev/zero", "/dev/zero is a device, not a file."),
    ],
)
def test_file_that_cannot_be_attached_is_refused(account: Account, name: str, words: str):
    (account.home / "binary").write_bytes(b"\x7fELF\xff\x00")
    (account.home / "pic.bmp").write_bytes(b"BM\xff\x00")
    for pipe in ("pipe", "pipe.png"):
        os.mkfifo(account.home / pipe)
    refused(account.run(*ECHO, "-p", "explain", f"@{name}"), 2, words)
    assert not account.rows()


def test_which_agent(account: Account):
    for arguments in (["-c", "one"], ["--new", "two"], ["-c", "three"]):
        assert account.run(*ECHO, "-p", *arguments).returncode == 0
    first, second = account.agents()
    assert account.run(*ECHO, "-p", "-r", second, "four").returncode == 0
    assert account.run(*ECHO, "-c", "-p", "five").returncode == 0  # the one used last is as before
    turns = {name: len(memory.window.turns) for name, memory in check(account.dsn).items()}
    assert turns == {first: 3, second: 2}


def test_unknown_agent_is_refused(account: Account):
    account.run(*ECHO, "-c", "-p", "one")
    (name,) = account.agents()
    refused(account.run(*ECHO, "-p", "x", "-r", name[:-1]), 2, f"no agent {name[:-1]}", f"Did you mean {name}?")
    assert account.said("user") == ["one"] and account.agents() == [name]


def test_agent_open_in_another_program_is_refused(account: Account):
    with account.terminal(*ECHO) as program:
        program.ready()
        program.say("mine")
        program.wait_for("● mine")
        (name,) = account.agents()
        refused(
            account.run(*ECHO, "-c", "-p", "x"),
            75,
            f"Agent {name}",
            f"pid {program.process.pid})",
            "Nothing was sent",
            "--new",
        )
        assert account.said("user") == ["mine"]
        assert account.run(*ECHO, "-p", "--new", "beside it").stdout == "beside it\n"
        program.leave()
    assert account.endings() == ["completed"] * 2 and len(account.agents()) == 2


@pytest.mark.long  # test_print_runs.py shows it with -c
def test_print_mode_and_repl_share_a_conversation(account: Account, wire: Wire):
    wire.answers("Seven it is.", "It was seven.", "Yes.")
    account.run(*WIRE, "-c", "-p", "remember seven")
    with account.terminal(*WIRE) as program:
        program.ready()
        program.wait_for("● Seven it is.")
        program.say("which number?")
        program.wait_for("● It was seven.")
        program.leave()
    assert account.run(*WIRE, "-c", "-p", "sure?").stdout == "Yes.\n"
    spoken = [message["content"] for message in wire.messages()]
    assert spoken == ["remember seven", "Seven it is.", "which number?", "It was seven.", "sure?"]


@pytest.mark.long  # test_json_output.py shows it among the refusals
def test_without_a_model(account: Account):
    refused(account.run("-p", "hello"), 1, "No model yet", "ikigai setup")
    refused(account.run("-p", "hello", "--new"), 1, "No model yet", "ikigai setup")
    assert not account.rows() and not account.agents()


def test_model_of_the_agent_is_used_when_none_is_named(account: Account):
    with account.terminal() as program:
        program.ready()
        program.say("/model scripted/echo")
        program.wait_for("Model: scripted/echo")
        program.leave()
    assert account.run("-c", "-p", "hello").stdout == "hello\n"


def test_at_most_so_many_requests(account: Account, wire: Wire):
    wire.answers(*[completion(calls=[{"name": "again"}])] * 5)
    refused(account.run(*WIRE, "-p", "go", "--max-turns", "2"), 1, "Stopped after 2 requests", "--max-turns")
    assert len(wire.requests) == 2
    assert account.endings() == ["failed"]


def test_flags_for_one_run(account: Account, wire: Wire):
    account.run(*WIRE, "-p", "one", "--system-prompt", "Be brief.")
    account.run("-m", "wire/other:low", "-p", "two")
    first, second = (request.json for request in wire.requests)
    assert first["messages"][0] == {"role": "system", "content": "Be brief."} and first["model"] == "x"
    assert second["messages"][0]["role"] == "user" and second["model"] == "other"
    assert [data["model"] for _, _, data in account.rows("assistant")] == ["wire/x", "wire/other"]


@pytest.mark.parametrize(
    ("number", "code", "format"), [(signal.SIGINT, 130, "text"), (signal.SIGTERM, 143, "stream-json")]
)
def test_stopped_by_a_signal(account: Account, wire: Wire, number: signal.Signals, code: int, format: str):
    wire.answers(_hanging("Half a reply"))
    program = account.start(*WIRE, "-p", "go", "--output-format", format)
    printed = _read_until(program, "reply" if format == "text" else '"eply"')
    program.send_signal(number)
    assert program.stdout and program.stderr
    rest, errors = program.stdout.read(), program.stderr.read()
    assert program.wait(60) == code and not errors
    assert account.endings() == ["interrupted"]
    assert account.said("assistant") == ["Half a reply"]
    if format == "text":
        assert printed + rest == "Half a reply\n"
    else:
        assert lines_of(printed + rest)[-1] == _result(account, "Half a reply", "interrupted")


def _result(account: Account, text: str, stop: str) -> dict[str, object]:
    (name,) = account.agents()
    (began,) = [data["first"] for _, _, data in account.rows("turn_end")]
    counts = dict.fromkeys(("input", "output", "cached", "written", "thinking", "searches"), 0)
    usage = {**counts, "unpriced": 1, "at_least": 0, "cost": None}  # nobody said what the part that came took
    return {
        "type": "result",
        "text": text,
        "agent": name,
        "agent_id": account.agent_id(name),
        "model": "wire/x",
        "usage": usage,
        "turn": began,
        "stop": stop,
        "reason": "The turn was interrupted.",
    }


def _hanging(text: str) -> Answer:
    """Return an answer that says `text`, and nothing more."""
    answer = completion(text)
    answer.cut, answer.end = answer.body.index(b'"finish_reason":"stop"'), "hang"
    answer.cut = answer.body.rindex(b"data: ", 0, answer.cut)
    return answer


def _read_until(program: "subprocess.Popen[str]", text: str) -> str:
    """Return the output up to `text`, or all of it if `text` does not come."""
    assert program.stdout
    printed = ""
    while text not in printed and (character := program.stdout.read(1)):
        printed += character
    assert text in printed, printed
    return printed


def test_stopped_before_a_word_came(account: Account, wire: Wire):
    wire.answers(Answer(end="hang"))
    program = account.start(*WIRE, "-c", "-p", "go")
    assert wire.asked()
    program.send_signal(signal.SIGINT)
    assert program.communicate(timeout=60) == ("", "")
    assert program.returncode == 130
    assert account.endings() == ["interrupted"] and not account.said("assistant")
    assert account.run(*WIRE, "-c", "-p", "again").returncode == 0
    assert [message["role"] for message in wire.messages()] == ["user", "assistant", "user"]


def test_unreachable_after_retries(account: Account, wire: Wire):
    result = account.run("-m", "dead/x", "-p", "go", module="tests.e2e.hasty")
    assert result.returncode == 75 and not result.stdout
    first, *more, last = result.stderr.splitlines()
    assert first.endswith("connection refused. Trying again in 1 s (attempt 2 of 8).")
    assert more == [f"ikigai: Trying again in 1 s (attempt {attempt} of 8)." for attempt in range(3, 9)]
    assert last.endswith("connection refused. Stopped after 8 attempts. Check the network and the address.")
    assert account.endings() == ["failed"]


def test_help_describes_the_output(tmp_path: Path, account: Account):
    text = account.run("--help").stdout
    assert all(
        word in text
        for word in ("agent_id; of a turn also model, usage, turn", '"event"', '"delta"', '"result"', "@file")
    )
    assert all(f"\n  {code} " in text for code in EXIT_CODES)
