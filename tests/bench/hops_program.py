"""This module runs ikigai and writes down the modules entered on two ways: python … FILE [ARGUMENT …]

A line in FILE is the name of a way and the modules entered on it:

    request    from the Enter that is read from the terminal to the first byte that is sent to a provider
    delta      from the read that brings a delta of the reply to the write that shows its word

A module is entered when a function of it is called in the main thread, where the loop runs. Bodies of modules and
classes do not count: they run once, when something is imported.
"""

import os
import re
import socket
import sys
from inspect import CO_OPTIMIZED
from types import BuiltinFunctionType, FrameType

from ikigai import __file__ as package

ROOT = os.path.dirname(package) + os.sep
WORD = re.compile("¶\\d+\\.".encode())
SENT = ("send", "sendmsg")
RECEIVED = ("recv", "recv_into")

file, *arguments = sys.argv[1:]
read, write = os.read, os.write
way, entered = "", set[str]()


def begin(name: str) -> None:
    global way
    way = name
    entered.clear()


def end() -> None:
    global way
    with open(file, "a") as out:
        out.write(f"{way} {' '.join(sorted(entered))}\n")
    way = "" if way == "delta" else "sent"


def profile(frame: FrameType, event: str, called: object) -> None:
    if event == "call":
        name = frame.f_code.co_filename
        if way and name.startswith(ROOT) and frame.f_code.co_flags & CO_OPTIMIZED:
            entered.add(name[len(ROOT) : -3])
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
