"""Run ikigai and write down the modules on two ways: python … FILE [ARGUMENT …]

A line in FILE is the name of a way and the modules on it:

    request            from the Enter that is read from the terminal to the first byte that is sent to a provider
    delta              from the read that brings a delta of the reply to the write that shows its word
    request-entered    all modules that are entered between the two
    delta-entered

A way is followed as a reader follows it with "go to definition". A hand-off is a callback that the event loop gets: a
task, the result of a wait, a reader of a socket, a timer. The functions on the stack at a hand-off that leads to the
end are on the way. So are the functions that they call in their own module, and the generators that they read from.
Counted are the modules of all these, and of the functions that they call in other modules. What such a function calls
in turn explains one step, and does not lead on.

A module is entered when a function of it is called in the main thread, where the loop runs. Bodies of modules and
classes do not count: they run once, when something is imported.
"""

import asyncio
import os
import re
import socket
import sys
from asyncio import events
from inspect import CO_ASYNC_GENERATOR, CO_GENERATOR, CO_OPTIMIZED
from types import BuiltinFunctionType, CodeType, FrameType
from typing import Any
from weakref import WeakKeyDictionary

from ikigai import __file__ as package

ROOT = os.path.dirname(package) + os.sep
WORD = re.compile("¶\\d+\\.".encode())
SENT = ("send", "sendmsg")
RECEIVED = ("recv", "recv_into")

file, *arguments = sys.argv[1:]
read, write = os.read, os.write
way = ""
calls = set[tuple[CodeType | None, CodeType]]()
"""Each function that was called on this way, and the one of ikigai that called it; None for the event loop."""
tasks = WeakKeyDictionary["asyncio.Task[Any]", set[CodeType]]()
"""The functions on the way to each task."""


class Traced:
    """A handle of the event loop that knows the functions on the way to it."""

    running: "Traced | None" = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.way = way_to(sys._getframe(1)) if way else set[CodeType]()

    def _run(self) -> None:
        Traced.running = self
        super()._run()  # type: ignore[misc]
        Traced.running = None


events.Handle = type("Handle", (Traced, events.Handle), {})  # type: ignore[misc]
events.TimerHandle = type("TimerHandle", (Traced, events.TimerHandle), {})  # type: ignore[misc]


def caller(frame: FrameType | None) -> FrameType | None:
    """Return the nearest frame of ikigai from this one on, unless the event loop is nearer."""
    while frame and not is_own(frame.f_code):
        frame = None if frame.f_code is Traced._run.__code__ else frame.f_back
    return frame


def is_own(code: CodeType) -> bool:
    return code.co_filename.startswith(ROOT) and bool(code.co_flags & CO_OPTIMIZED)


def way_to(frame: FrameType | None) -> set[CodeType]:
    """Return the functions on the stack, and those on the way to the running handle and to its task."""
    codes = way_so_far()
    while frame := caller(frame):
        codes.add(frame.f_code)
        frame = frame.f_back
    return codes


def way_so_far() -> set[CodeType]:
    """Return the functions on the way to the running handle and to the earlier steps of its task."""
    loop = events._get_running_loop()
    task = loop and asyncio.current_task(loop)
    so_far = (Traced.running.way if Traced.running else set[CodeType]()) | (tasks.get(task, set()) if task else set())
    if task:
        tasks[task] = so_far
    return set(so_far)


def module(code: CodeType) -> str:
    return code.co_filename[len(ROOT) : -3]


def on_the_way(codes: set[CodeType]) -> set[str]:
    """Return the modules on the way that these functions are on."""

    def leads_on(by: CodeType | None, code: CodeType) -> bool:
        is_read = bool(code.co_flags & (CO_GENERATOR | CO_ASYNC_GENERATOR))
        return by in codes and (is_read or module(by) == module(code))

    while more := {code for by, code in calls if leads_on(by, code)} - codes:
        codes |= more
    return {module(code) for code in codes} | {module(code) for by, code in calls if by in codes}


def begin(name: str) -> None:
    global way
    way = name
    calls.clear()
    tasks.clear()
    if Traced.running:
        Traced.running.way = set()
        Traced.running.way = way_to(sys._getframe(1))


def end() -> None:
    global way
    entered = {module(code) for _, code in calls}
    with open(file, "a") as out:
        for name, modules in ((way, on_the_way(way_to(sys._getframe(1)))), (f"{way}-entered", entered)):
            out.write(f"{name} {' '.join(sorted(modules))}\n")
    way = "" if way == "delta" else "sent"


def profile(frame: FrameType, event: str, called: object) -> None:
    if event == "call":
        if way and is_own(frame.f_code):
            by = caller(frame.f_back)
            if by is None:
                way_so_far()
            calls.add((by and by.f_code, frame.f_code))
    elif event in ("c_call", "c_return") and way and isinstance(called, BuiltinFunctionType):
        connection = called.__self__
        if isinstance(connection, socket.socket) and connection.family == socket.AF_INET:
            if event == "c_call" and way == "request" and called.__name__ in SENT:
                end()
            elif event == "c_return" and way in ("sent", "delta") and called.__name__ in RECEIVED:
                begin("delta")  # again with each read: the last one before the word is shown has brought it


def reading(fd: int, size: int) -> bytes:
    data = read(fd, size)
    if b"\r" in data and os.isatty(fd):
        begin("request")
    return data


def writing(fd: int, data: bytes) -> int:
    if way == "delta" and WORD.search(bytes(data)):
        end()
    return write(fd, data)


os.read, os.write = reading, writing
sys.argv = ["ikigai", *arguments]

from ikigai.cli.main import main  # noqa: E402

sys.setprofile(profile)
sys.exit(main())
