"""Output that a command draws over itself is folded to what a terminal shows."""

import re
import time

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikigai.tools.shell.drawn_output import MAX_LINES, DrawnOutput


def folded(*pieces: bytes) -> str:
    output = list[bytes]()
    drawn = DrawnOutput(output.append)
    for piece in pieces:
        drawn.feed(piece)
    drawn.flush()
    return b"".join(output).decode("utf-8", "surrogateescape")


FRAMES = [f"{n:>3}% |{'#' * (n // 5):<20}|" for n in range(0, 101, 5)]


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        ("\r".join(FRAMES) + "\ndone\n", f"{FRAMES[-1]}\ndone\n"),
        ("".join(f"\r{frame}" for frame in FRAMES), FRAMES[-1]),
        ("".join(f"{frame}\r" for frame in FRAMES) + "\n", f"{FRAMES[-1]}\n"),
        ("".join(f"\x1b[2K\r{frame}" for frame in FRAMES) + "\n", f"{FRAMES[-1]}\n"),
        ("".join(f"\r{frame}\x1b[K" for frame in FRAMES), FRAMES[-1]),
        ("".join(f"\x1b[1G{frame}" for frame in FRAMES), FRAMES[-1]),
        ("".join(frame + "\b" * len(frame) for frame in FRAMES), FRAMES[-1]),
        ("".join(f"\x1b[{len(FRAMES[0])}D{frame}" for frame in FRAMES), FRAMES[-1]),
        (
            "start\n" + "a 1\nb 1\n" + "".join(f"\x1b[2Aa {n}\x1b[K\nb {n}\x1b[K\n" for n in range(9)),
            "start\na 8\nb 8\n",
        ),
        ("x\n" + "a 1\nb 1\n" + "".join(f"\x1b[2F\x1b[Ja {n}\nb {n}\n" for n in range(9)) + "end", "x\na 8\nb 8\nend"),
        ("a 1\nb 1\n\x1b[1A\x1b[2K\x1b[1A\x1b[2Kgone", "gone\n\n"),
        ("working |\b/\b-\b\\\b \bdone\n", "working done\n"),
        ("long line of text\rshort\n", "shortline of text\n"),
        ("\rwait…\r      \rready\n", "ready\n"),
        ("\x1b[32m 50%\x1b[0m\r\x1b[32m100%\x1b[0m\n", "\x1b[32m100%\x1b[m\n"),
        ("\x1b[31mred\x1b[0m plain\r\x1b[1mR\n", "\x1b[1mR\x1b[m\x1b[31med\x1b[m plain\n"),
        ("\x1b[?25l\r1\r2\x1b[?25h\n", "2\n"),
        ("N\bNA\bAM\bME\bE\n", "NAME\n"),  # bold of man pages
        ("ab\x1b[3Cd\n", "ab   d\n"),
        ("下载 1%\r下载 99%\n", "下载 99%\n"),
        ("one\n\x1b[H\x1b[2Jtwo\n\x1b[H\x1b[Jthree", "one\ntwo\nthree"),
    ],
)
def test_output_is_folded_to_what_a_terminal_shows(output: str, shown: str) -> None:
    data = output.encode()
    assert folded(data) == shown
    assert folded(*(data[at : at + 1] for at in range(len(data)))) == shown


@pytest.mark.parametrize(
    "output",
    [
        b"a\r\nb\r\n", b"a\r\r\nb", b"\x1b[31mred\x1b[0m\n\x1b[1mbold", b"\xff\xfe\x00\r\n", "ä€𝄞\n".encode(),
        b"\x1b]8;;x\x07y",        b"\x1b", b"\x1b[", b"tab\tx\x0b\x0c\n", b"\xe2\x82", b"",
    ],
)  # fmt: skip
def test_output_that_draws_nothing_over_passes_as_it_is(output: bytes) -> None:
    for pieces in ((output,), tuple(output[at : at + 1] for at in range(len(output)))):
        got = list[bytes]()
        drawn = DrawnOutput(got.append)
        for piece in pieces:
            drawn.feed(piece)
        drawn.flush()
        assert b"".join(got) == output


PARTS = st.sampled_from(
    ["a", "bc", "\r", "\b", "\n", "\r\n", "\x1b[K", "\x1b[1K", "\x1b[2K", "\x1b[A", "\x1b[2A", "\x1b[B", "\x1b[C",
     "\x1b[2D", "\x1b[3G", "\x1b[F", "\x1b[E", "\x1b[J", "\x1b[1m", "\x1b[0m"]
)  # fmt: skip


@given(st.lists(PARTS, max_size=30))
def test_random_drawing_looks_as_on_a_terminal(parts: list[str]) -> None:
    screen = pyte.Screen(200, 60)
    screen.set_mode(20)  # a line feed goes to the first column
    stream = pyte.Stream(screen)
    # A command of cursor movements down goes no further than to the last line that there is.
    text = "".join(parts).replace("\x1b[B", "").replace("\x1b[E", "")
    stream.feed(text)
    shown = re.sub(r"\x1b\[\d*m|\r(?=\n)", "", folded(text.encode()))
    assert [line.rstrip() for line in shown.rstrip().split("\n")] == [
        line.rstrip() for line in "\n".join(screen.display).rstrip().split("\n")
    ]


def test_flushed_line_is_ended_where_the_next_frame_is_drawn_over_it() -> None:
    for frames in ((b"1%", b"\r2%", b"\r3%"), (b"1%\r", b"2%\r", b"3%")):
        output = list[bytes]()
        drawn = DrawnOutput(output.append)
        for frame in frames:
            drawn.feed(frame)
            drawn.flush()
            drawn.flush()
        drawn.feed(b" and more")
        drawn.flush()
        assert b"".join(output) == b"1%\n2%\n3% and more"


def test_many_lines_pass_while_few_wait() -> None:
    output = list[bytes]()
    drawn = DrawnOutput(output.append)
    for number in range(10_000):
        drawn.feed(f"\rline {number}\n".encode())
        assert number - b"".join(output[-1:]).count(b"\n") * len(output) <= 3 * MAX_LINES
    drawn.flush()
    assert b"".join(output).decode() == "".join(f"line {number}\n" for number in range(10_000))


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "part",
    [b"\r" + b"#" * 80, b"#\b", b"\x1b[A", b"\n", b"x" * 99 + b"\n", b"\x1b[2K\r", b"\x1b[9999999999C#", b"\x1b[",
     b"\x1b]", b"a\n\x1b[A", b"\x1b[1mx", b"\x1b[J", b"x\x1b[H"],
)  # fmt: skip
def test_drawing_is_read_in_linear_time(part: bytes) -> None:
    times = []
    for size in (100_000, 800_000):
        drawn = DrawnOutput(lambda data: None)
        data = part * (size // len(part))
        start = time.process_time()
        for at in range(0, len(data), 65_536):
            drawn.feed(data[at : at + 65_536])
        drawn.flush()
        times.append(time.process_time() - start)
    assert times[1] < 40 * max(times[0], 0.02)
