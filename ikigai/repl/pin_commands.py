"""/pin and /unpin: files whose text joins the system prompt as it is now, listed, refreshed, taken away.

answered      what both come to, on a screen
pin           what /pin answers, and the change that it asks for
unpin         the change that /unpin asks for
completions   files that what has been typed can go on with
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ikigai.core import tokens
from ikigai.core.commands.parsers import Local
from ikigai.core.errors import Refused, nearest
from ikigai.core.events import Choices
from ikigai.core.questions import Answered, Question, yes_or_no
from ikigai.core.request.pins import PREFIX, Pin, pinned, pins, size
from ikigai.core.sanitize import clean_line, storable
from ikigai.core.state.inputs import Change
from ikigai.core.state.memory import Memory, frame
from ikigai.core.views.context_report import SPACE
from ikigai.tools.secret_files import secret

if TYPE_CHECKING:
    from ikigai.terminal.screen import Screen

MOST = 256 * 1024
"""Bytes of a file that can be pinned: what is pinned is kept whole in the log, and read with it at every start."""
LISTED = 2_000
"""Names of a folder that are looked at for a completion."""

Ask = Callable[[Question], Awaitable[Answered]]


async def answered(command: Local, memory: Memory, screen: Screen) -> str | Change:
    """What the command shows, or the change that it asks for. Raises Refused."""
    if command.name == "unpin":
        return unpin(command.argument, memory, here())
    told, change = await pin(command.argument, memory, here(), screen.ask)
    if told and change:
        screen.print_text(told)
    return change or told


def here() -> Path:
    """The working directory; the root where it is gone."""
    try:
        return Path.cwd()
    except OSError:
        return Path("/")


async def pin(argument: str, memory: Memory, folder: Path, ask: Ask) -> tuple[str, Change | None]:
    """What /pin answers, "" for nothing, and the change it asks for. Raises Refused."""
    word, _, rest = argument.partition(" ")
    if word == "--refresh":
        return await _refreshed(rest.strip(), memory, folder)
    if not argument:
        return await asyncio.to_thread(_listed, memory, folder), None
    path = _path(argument, folder)
    name = _name(path, folder)
    text = await asyncio.to_thread(_read, path, name)
    if any(each.path == storable(path) and each.text == storable(text) for each in pins(memory.settings)):
        raise Refused(f"{name} is pinned as it is now.", "/unpin takes it away.")
    if secret(str(folder), path):
        lines = (f"{name} looks like a file with keys or passwords.", "Pinned, it is stored in the log and sent along.")
        if (await ask(yes_or_no("Pin it?", lines))).key != "y":
            return "Nothing was pinned.", None
    values = pinned(path, _now(), text)
    _fits(memory, values, f"{name} does")
    return "", Change(values)


def unpin(argument: str, memory: Memory, folder: Path) -> Change:
    """The change that takes a pin away. Raises Refused."""
    return Change({f"{PREFIX}{_found(argument, memory, folder).path}": None})


def completions(typed: str, folder: Path) -> Iterator[str]:
    """Files and folders that `typed` can become, as one would write them."""
    above = typed[: typed.rfind("/") + 1]
    with contextlib.suppress(OSError, RuntimeError, ValueError), os.scandir(folder / Path(above).expanduser()) as found:
        for entry, _ in zip(found, range(LISTED), strict=False):
            name = entry.name
            if name.isprintable() and (not name.startswith(".") or typed[len(above) :].startswith(".")):
                if entry.is_dir():
                    yield f"{above}{name}/"
                elif entry.is_file(follow_symlinks=False):
                    yield above + name


def offered(memory: Memory, folder: Path) -> dict[str, str]:
    """What is pinned, as /unpin takes it, and its size."""
    return {_name(each.path, folder): f"{tokens.short(size(each))} tokens" for each in pins(memory.settings)}


def _path(argument: str, folder: Path) -> str:
    """The whole path that was typed, perhaps in quotes."""
    quoted = len(argument) > 2 and argument[0] == argument[-1] and argument[0] in "'\""
    try:
        path = os.path.normpath(folder / Path(argument[1:-1] if quoted else argument).expanduser())
        if "\0" in path:
            raise ValueError(path)
        path.encode()
    except (RuntimeError, ValueError):
        raise Refused(f"{clean_line(argument)!r} is no path.", "/pin PATH pins a file.") from None
    return path


def _name(path: str, folder: Path) -> str:
    """A path as it is shown: from the working directory where it lies there."""
    root = f"{str(folder).rstrip('/')}/"
    return clean_line(path.removeprefix(root))


def _read(path: str, name: str) -> str:
    """The text of an ordinary file; nothing else is opened, for that can wait, do things or never end."""
    try:
        mode = Path(path).lstat().st_mode
        if stat.S_ISLNK(mode):
            target = clean_line(str(Path(path).readlink()))
            raise Refused(f"{name} is a link to {target}.", "Pin the file itself.")
        if stat.S_ISDIR(mode):
            raise Refused(f"{name} is a folder.", "Pin the files in it that matter.")
        if not stat.S_ISREG(mode):
            raise Refused(f"{name} is no ordinary file.", "Copy what it holds into one, and pin that.")
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(MOST + 1) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
            whole = os.fstat(descriptor).st_size
    except FileNotFoundError:
        raise Refused(f"There is no file {name}.", "/pin PATH pins one, /pin alone lists what is pinned.") from None
    except OSError as error:
        raise Refused(f"{name} cannot be read: {error.strerror}.", "See to its permissions, or pin another.") from None
    if len(data) > MOST:
        figures = f"{max(whole, MOST + 1):,} bytes, and {MOST:,} can be pinned"
        raise Refused(f"{name} is too large: {figures}.", "Pin a shorter version; models with tools can read files.")
    return _text(data, name)


def _text(data: bytes, name: str) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise Refused(f"{name} is no text in UTF-8.", "Only text can be pinned.")
    if not text.strip():
        raise Refused(f"{name} is empty.", "Pin it when something stands in it.")
    return text


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())


def _fits(memory: Memory, values: Choices, who: str) -> None:
    """Raise Refused, with figures, where what every request has would leave no room for a conversation."""
    settings = {**memory.settings, **values}
    framed = frame(msgspec.structs.replace(memory, settings=settings, open=None))
    count = tokens.count(memory.provider, memory.model, memory.run.encoder(memory.model).envelope(framed))
    if count + SPACE > memory.ceiling:
        taken = sum(size(each) for each in pins({key: value for key, value in settings.items() if key in values}))
        what = (
            f"{who} not fit: it takes {tokens.short(taken)} tokens, with system prompt, tools and what else is pinned"
            f" {tokens.short(count)}, and a request may have {tokens.short(memory.ceiling)}, of which turns need some."
        )
        raise Refused(what, "Pin less, or choose a larger /budget or a model with a larger context.")


def _found(argument: str, memory: Memory, folder: Path) -> Pin:
    """The pin that was named, by the path as shown or whole. Raises Refused."""
    if not argument:
        raise Refused("Which file?", "/pin lists what is pinned.")
    known = {each.path: each for each in pins(memory.settings)}
    if found := known.get(storable(_path(argument, folder))):
        return found
    names = [_name(path, folder) for path in known]
    near = nearest(argument, names) or names[:5]
    how = f"Pinned are: {', '.join(near)}" if near else "/pin PATH pins a file."
    raise Refused(f"{clean_line(argument)} is not pinned.", how)


async def _refreshed(argument: str, memory: Memory, folder: Path) -> tuple[str, Change | None]:
    """All pins, or the one that is named, as their files are now; one that cannot be read stays as it was."""
    chosen = [_found(argument, memory, folder)] if argument else pins(memory.settings)
    if not chosen:
        raise Refused("Nothing is pinned.", "/pin PATH pins a file.")
    values, told = dict[str, str | int | float | bool | None](), list[str]()
    for each in chosen:
        try:
            text = await asyncio.to_thread(_read, each.path, _name(each.path, folder))
        except Refused as refusal:
            told.append(f"{refusal.what} It stays pinned as it was {each.at}.")
            continue
        if storable(text) != each.text:
            values |= pinned(each.path, _now(), text)
    if values:
        _fits(memory, values, "What has changed does")
    elif not told:
        told.append("Nothing that is pinned has changed.")
    return "\n".join(told), Change(values) if values else None


def _listed(memory: Memory, folder: Path) -> str:
    """What is pinned: path, tokens, when, and whether the file is another one by now."""
    found = pins(memory.settings)
    if not found:
        return "Nothing is pinned. /pin PATH lets a file, as it is then, join the system prompt."
    names = [_name(each.path, folder) for each in found]
    sizes = [size(each) for each in found]
    width = max(map(len, names))
    rows = [
        f"{name:<{width}}  {tokens.short(taken):>6} tokens  {clean_line(each.at)}{_stale(each, name)}"
        for each, name, taken in zip(found, names, sizes, strict=True)
    ]
    rows.append(f"Together {tokens.short(sum(sizes))} tokens of every request.")
    rows.append("/pin --refresh [PATH] takes files as they are now, /unpin PATH takes one away.")
    return "\n".join(rows)


def _stale(pin: Pin, name: str) -> str:
    try:
        return "" if storable(_read(pin.path, name)) == pin.text else "  changed since"
    except Refused as refusal:
        return f"  {refusal.what.removesuffix('.')} any more" if "no file" in refusal.what else f"  {refusal.what}"
