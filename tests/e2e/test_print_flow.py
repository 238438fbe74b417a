"""Tests of how print mode reads, writes and ends: pipes, signals, --timeout, --schema, turns on standard input."""

import fcntl
import json
import signal
import struct
import subprocess
import termios
import time
from typing import IO, Any

import pytest

from tests.e2e.account import ECHO, WIRE, Account, Wire, lines_of, refused
from tests.support.starting import Piped
from tests.support.wire_server import Answer, completion, failure

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "size": {"type": "integer", "minimum": 1}},
    "required": ["city", "size"],
    "additionalProperties": False,
}


def bytes_in(pipe: IO[str]) -> int:
    """Return the bytes in a pipe that nobody has read."""
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))[0]


def has_full_pipe(program: "Piped | subprocess.Popen[str]") -> bool:
    """Return True if there is no more room in the pipe that the program writes to."""
    assert program.stdout
    return bytes_in(program.stdout) >= fcntl.fcntl(program.stdout, fcntl.F_GETPIPE_SZ) or program.poll() is not None


def until(true: Any, what: str) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)


# The promise is one second; a busy machine takes longer. Without a thread for the output it is for ever.
@pytest.mark.ordinary("text-2-130", "stream-json-15-143")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("format", ["text", "stream-json"])
def test_signal_ends_a_run_whose_output_is_not_read(account: Account, number: int, code: int, format: str):
    model = account.script("word " * 20_000)
    program = account.start(*model, "-p", "go", "--output-format", format)
    until(lambda: account.turns() == ["completed"] or program.poll() is not None, "the end of the turn")
    assert program.poll() is None
    program.send_signal(number)
    assert program.wait(60) == code
    assert account.endings() == ["completed"]  # the turn went on although nobody read


def test_signal_ends_a_command_whose_output_is_not_read(account: Account):
    program = account.start(*ECHO, "-p", "--system-prompt", "x" * 100_000, "/system")
    until(lambda: has_full_pipe(program), "a full pipe")
    program.send_signal(signal.SIGTERM)
    assert program.wait(60) == 143


@pytest.mark.ordinary("2-130", "1-129")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signal_ends_the_wait_for_input(account: Account, number: int, code: int):
    program = account.start(*ECHO, "-p", typed=True)
    stdin = program.stdin
    assert stdin
    stdin.write("words ")
    stdin.flush()
    until(lambda: not bytes_in(stdin), "a program that reads its input")
    program.send_signal(number)
    assert program.wait(60) == code and not account.agents()


@pytest.mark.long  # test_bad_input.py shows it of a reply
def test_closed_output_pipe_is_no_failure(account: Account):
    model = account.script("word\n" * 20_000)
    result = account.shell(f"ikigai {' '.join(model)} -p go | head -1; exit ${{PIPESTATUS[0]}}")
    assert (result.stdout, result.stderr, result.returncode) == ("word\n", "", 0)
    assert account.endings() == ["completed"]


@pytest.mark.long  # test_bad_input.py shows it of a reply, and of the output of commands
@pytest.mark.parametrize("what", ["go", "/help"])
def test_full_disk_is_reported(account: Account, what: str):
    result = account.shell(f"ikigai {' '.join(ECHO)} -p {what} > /dev/full")
    assert result.returncode == 1 and ("could not be" in result.stderr or "cannot be written" in result.stderr)
    assert "No space left" in result.stderr


def test_what_is_said_before_and_after_tools_stands_apart(account: Account, wire: Wire):
    call = [{"name": "none"}]
    wire.answers(completion("Let me look.", calls=call), completion("Once more\n", calls=call), "\n\nFour.")
    result = account.run(*WIRE, "-p", "go")
    assert (result.stdout, result.stderr) == ("Let me look.\n\nOnce more\n\nFour.\n", "")


# ── --timeout ──


@pytest.mark.ordinary("json")
@pytest.mark.parametrize("format", ["text", "json"])
def test_timeout_interrupts_the_turn(account: Account, wire: Wire, format: str):
    wire.answers(Answer(end="hang"))
    result = account.run(*WIRE, "-p", "--timeout", "2.5", "--output-format", format, "go")
    refused(result, 124, "Stopped after 2.5 s (--timeout).")
    assert account.endings() == ["interrupted"]
    assert format == "text" or json.loads(result.stdout)["stop"] == "interrupted"


def test_timeout_ends_the_wait_for_input_and_for_a_reader(account: Account):
    program = account.start(*ECHO, "-p", "--timeout", "1", typed=True)
    assert program.wait(60) == 124 and not account.agents()
    program = account.start(*account.script("word " * 20_000), "-p", "--timeout", "4", "go")
    assert program.wait(60) == 124


def test_timeout_changes_nothing_when_the_run_ends_in_time(account: Account):
    assert account.run(*ECHO, "-p", "--timeout", "100", "hello").stdout == "hello\n"


@pytest.mark.ordinary("0", "nan", "inf")
@pytest.mark.parametrize("value", ["0", "-1", "soon", "nan", "inf"])
def test_timeout_is_a_time(account: Account, value: str):
    result = account.run(*ECHO, "-p", "hello", f"--timeout={value}")
    assert result.returncode == 2 and "is not a time in seconds" in result.stderr and not account.agents()


@pytest.mark.parametrize("flag", ["--timeout=1", "--input-format=stream-json"])
def test_flags_of_print_mode_are_refused_at_a_terminal(account: Account, flag: str):
    with account.terminal(*ECHO, flag) as program:
        assert program.ended() == 2
        assert "is for print mode" in program.words()


# ── --schema ──


def schema(account: Account, value: object = SCHEMA) -> str:
    (account.home / "schema.json").write_text(value if isinstance(value, str) else json.dumps(value))
    return "schema.json"


def test_schema_is_sent_and_the_reply_parsed(account: Account, wire: Wire):
    reply = '{"city": "Pécs", "size": 3}'
    wire.answers(reply, reply)
    result = account.run(*WIRE, "-p", "--schema", schema(account), "--json", "which?")
    made = json.loads(result.stdout)
    assert (result.returncode, result.stderr) == (0, "")
    assert made["text"] == reply and made["structured"] == {"city": "Pécs", "size": 3} and "reason" not in made
    asked = wire.requests[0].json["response_format"]
    assert asked == {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA}}
    assert account.run(*WIRE, "-p", "--schema", schema(account), "which?").stdout == f"{reply}\n"


def test_schema_with_optional_properties_is_not_sent_as_strict(account: Account, wire: Wire):
    wire.answers("{}")
    wanted = schema(account, {"type": "object", "properties": {"a": {"type": "string"}}})
    assert account.run(*WIRE, "-p", "--schema", wanted, "which?").returncode == 0
    assert wire.requests[0].json["response_format"]["json_schema"]["strict"] is False


@pytest.mark.ordinary("*it is not JSON", "*required property")
@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("Pécs, three.", "it is not JSON"),
        ('{"city": "Pécs", "size": 0}', "0 is less than the minimum of 1 (at $.size)"),
        ('{"city": "Pécs"}', "'size' is a required property"),
    ],
)
def test_reply_that_does_not_match_the_schema_is_a_failure(account: Account, wire: Wire, reply: str, why: str):
    wire.answers(reply)
    result = account.run(*WIRE, "-p", "--schema", schema(account), "--json", "which?")
    made = json.loads(result.stdout)
    assert result.returncode == 1 and made["text"] == reply and "structured" not in made
    assert f"The reply does not match the schema: {why}" in made["reason"] and why in result.stderr
    assert account.endings() == ["completed"]


def test_schema_that_the_provider_refuses_is_reported(account: Account, wire: Wire):
    wire.answers(failure(400, "Invalid schema for response_format 'answer'"))
    refused(
        account.run(*WIRE, "-p", "--schema", schema(account), "which?"),
        1,
        "Invalid schema for response_format 'answer'",
    )
    assert len(wire.requests) == 1


@pytest.mark.ordinary("{-is not JSON", "*strnig*", "*127.0.0.1*")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a JSON schema: it is not an object with keywords"),
        ('{"type": "strnig"}', "is not a JSON schema: 'strnig' is not valid"),
        ('{"properties": {"a": {"$ref": "#/$defs/b"}}}', "refers to #/$defs/b, which is not in it"),
        ('{"$ref": "http://127.0.0.1:1/x.json"}', "refers to http://127.0.0.1:1/x.json, which is not in it"),
    ],
)
def test_file_that_is_no_schema_is_refused(account: Account, wire: Wire, text: str, why: str):
    refused(account.run(*WIRE, "-p", "--schema", schema(account, text), "x"), 2, why, "Nothing was sent")
    assert not wire.requests and not account.agents()


def test_schema_needs_its_file_and_a_message(account: Account):
    refused(account.run(*ECHO, "-p", "--schema", "none.json", "x"), 2, "none.json cannot be read")
    refused(account.run(*ECHO, "-p", "--schema", "team", "x"), 2, "team cannot be read", "IKIGAI_DATABASE_SCHEMA=team")
    refused(account.run(*ECHO, "-c", "-p", "--schema", schema(account), "/clear"), 2, "--schema is for messages")
    assert not account.agents()


# ── turns on standard input ──

TURNS = ("--input-format", "stream-json")


def turns(*values: object) -> str:
    return "".join(f"{value if isinstance(value, str) else json.dumps(value)}\n" for value in values)


def test_turns_are_answered_in_order(account: Account, wire: Wire):
    wire.answers("One.", "Two.", "Three.", "Four.")
    given = turns(
        {"type": "user", "text": "first"},
        {"type": "user", "message": {"role": "user", "content": "/second"}},
        "",
        {"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": "third"}]}},
    )
    result = account.run(*WIRE, "-p", *TURNS, "begin", input=given.rstrip("\n"))
    assert (result.returncode, result.stderr) == (0, "")
    results = [line for line in lines_of(result.stdout) if line["type"] == "result"]
    assert [each["text"] for each in results] == ["One.", "Two.", "Three.", "Four."]
    assert len({each["turn"] for each in results}) == 4 and len({each["agent"] for each in results}) == 1
    assert account.said("user") == ["begin", "first", "/second", "third"]
    assert [message["content"] for message in wire.messages()] == [
        "begin", "One.", "first", "Two.", "/second", "Three.", "third",
    ]  # fmt: skip
    assert account.endings() == ["completed"] * 4 and len(account.agents()) == 1


def test_line_is_answered_before_the_next_one_comes(account: Account):
    program = account.start(*ECHO, "-p", *TURNS, typed=True)
    assert program.stdin and program.stdout
    for text in ("one", "two"):
        program.stdin.write(turns({"type": "user", "text": text}))
        program.stdin.flush()
        while (line := json.loads(program.stdout.readline()))["type"] != "result":
            pass
        assert line["text"] == text
    program.stdin.close()
    assert program.wait(60) == 0


@pytest.mark.ordinary("{-*", "*udcff*")
@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "Line 3 of the standard input is not JSON"),
        ('{"type": "tool", "text": "x"}', "Line 3 of the standard input is not a message of the user"),
        ('{"type": "user", "text": 7}', "Line 3 of the standard input is not a message of the user"),
        ('{"type": "user", "message": {"role": "user", "content": [{"type": "image"}]}}', "Line 3"),
        ('{"type": "user", "text": " "}', "Line 3 of the standard input has an empty message"),
        ('"\udcff"', "Line 3 of the standard input is not text: byte 0xff at offset 1"),
    ],
)
def test_bad_line_is_refused_with_its_number(account: Account, line: str, why: str):
    good = {"type": "user", "text": "kept"}
    text = turns(good, "", line, good).encode(errors="surrogateescape")
    (account.home / "turns").write_bytes(text)
    result = account.shell(f"ikigai {' '.join(ECHO)} -p --input-format stream-json < turns")
    refused(result, 2, why)
    assert account.said("user", "assistant") == ["kept", "kept"] and account.endings() == ["completed"]


def test_bad_first_line_creates_no_agent(account: Account):
    refused(account.run(*ECHO, "-p", *TURNS, input="hello\n"), 2, "Line 1 of the standard input is not JSON")
    refused(account.run(*ECHO, "-p", *TURNS, input=""), 2, "No message was given")
    assert not account.agents()


def test_failed_turn_does_not_end_the_others(account: Account, wire: Wire):
    wire.answers(failure(400, "no"), "Two.")
    given = turns({"type": "user", "text": "one"}, {"type": "user", "text": "two"})
    result = account.run(*WIRE, "-p", *TURNS, input=given)
    results = [line for line in lines_of(result.stdout) if line["type"] == "result"]
    assert [each["stop"] for each in results] == ["failed", "end"] and result.returncode == 1
    assert account.endings() == ["failed", "completed"] and "reason" not in results[1]


def test_turns_are_answered_in_stream_json_alone(account: Account):
    refused(account.run(*ECHO, "-p", *TURNS, "--json"), 2, "--input-format stream-json is answered in stream-json")
    refused(account.run(*ECHO, "-c", "-p", *TURNS, "/clear"), 2, "--input-format is for messages")
