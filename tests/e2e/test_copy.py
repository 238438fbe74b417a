"""Tests of /copy over the real program: during a reply, in a follower, after a restart, and beside the terminal."""

import re
from base64 import b64decode

from tests.e2e.account import ECHO, Account
from tests.e2e.program import Program

ANSWER = (
    "Do **[this](https://docs.example/a)**:\n\n```sh\nls -l\n```\n\n"
    "- then:\n  ```py\n  a = 1\n  b = \x1b[31m2\u202e\n  ```\n"
)
OTHERWISE = {"IKIGAI_TERMINAL_TITLE": "false", "IKIGAI_TERMINAL_NOTIFY": "off", "FORCE_HYPERLINK": "1"}
SAFE = ANSWER.replace("\x1b[31m", "").replace("\u202e", "<U+202E>").strip()


def copied(program: Program) -> list[str]:
    return [b64decode(data).decode() for data in re.findall(rb"\x1b\]52;c;([^\x07]*)\x07", program.raw)]


def copy(program: Program, line: str, told: str) -> None:
    program.say(line)
    program.wait_for(told)


def test_copy_while_writing_following_and_after_a_restart(account: Account):
    with account.terminal(*account.script(ANSWER), columns=100) as writer:
        writer.ready()
        copy(writer, "/copy", "There is no answer yet.")
        writer.say("how")
        writer.wait_for("then:")
        writer.settled()
        copy(writer, "/copy", f"Copied the last answer ({len(SAFE)} characters), if the terminal allows it.")
        copy(writer, "/copy 3", "The last answer has 2 code blocks. Write a number up to 2.")
        with account.terminal(*ECHO, columns=100) as follower:
            follower.ready()
            copy(follower, "/copy 2", "Copied code block 2 of 2 (19 characters), if the terminal allows it.")
            assert copied(follower) == ["a = 1\nb = 2<U+202E>"]
            follower.leave()
        writer.leave()
        assert copied(writer) == [SAFE]
        assert all(sequence in writer.raw for sequence in (b"\x1b]133;C", b"\x1b]2;", b"\x1b[?1004h"))
        assert b"\x1b]8;" not in writer.raw, "nobody knows whether this terminal makes links"
    with account.terminal(*account.script("x" * 80_000), columns=100, env=OTHERWISE) as program:
        program.ready()
        copy(program, "/copy 1", "Copied code block 1 of 2 (")
        program.say("long")
        program.wait(lambda: len(account.said("assistant")) == 2, "the long answer")
        program.settled()
        copy(program, "/copy", "80,000 characters are more than terminals copy.")
        program.leave()
        assert copied(program) == ["ls -l"]
        assert not any(sequence in program.raw for sequence in (b"\x1b]2;", b"\x1b[?1004h"))
        assert re.search(rb"\x1b\]8;id=[0-9a-f]{8};https://docs\.example/a\x1b\\", program.raw)
