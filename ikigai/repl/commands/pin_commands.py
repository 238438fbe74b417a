"""Carry out /pin and /unpin: pin files, whose text joins the system prompt as it is at that time."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ikigai.core.commands.parsers import ProgramCommand
from ikigai.core.errors import Rejected, closest_names
from ikigai.core.events.events import Choices
from ikigai.core.request.pins import PIN_PREFIX, Pin, list_pins, pin_choice, pin_tokens
from ikigai.core.state.inputs import Change
from ikigai.core.state.memory import Memory, request_frame
from ikigai.core.text.sanitize import clean_line, storable
from ikigai.core.text.tokens import count_tokens, format_tokens
from ikigai.core.views.context_report import MIN_CONVERSATION_TOKENS
from ikigai.core.views.questions import Question, QuestionAnswer, yes_or_no

if TYPE_CHECKING:
    from ikigai.terminal.output.conversation import ConversationView

MAX_PINNED_BYTES = 256 * 1024
"""Bytes of a file that can be pinned: a pin is stored whole in the log, and read with it at every start."""

Ask = Callable[[Question], Awaitable[QuestionAnswer]]


async def run_pin_command(command: ProgramCommand, memory: Memory, view: ConversationView) -> str | Change:
    """Return the text that the command shows, or the change that it makes. Raise Rejected."""
    if command.name == "unpin":
        return unpin(command.argument, memory, working_directory())
    text, change = await pin(command.argument, memory, working_directory(), view.ask)
    if text and change:
        view.print_text(text)
    return change or text


def working_directory() -> Path:
    """Return the working directory, or the root if it is gone."""
    try:
        return Path.cwd()
    except OSError:
        return Path("/")


async def pin(argument: str, memory: Memory, folder: Path, ask: Ask) -> tuple[str, Change | None]:
    """Return the text that /pin shows, "" for none, and the change that it makes. Raise Rejected."""
    word, _, rest = argument.partition(" ")
    if word == "--refresh":
        return await _refresh(rest.strip(), memory, folder, ask)
    if not argument:
        return await asyncio.to_thread(_format_pins, memory, folder), None
    path = _parse_path(argument, folder)
    name = _display_name(path, folder)
    text = await asyncio.to_thread(_read, path, name)
    if any(each.path == storable(path) and each.text == storable(text) for each in list_pins(memory.settings)):
        raise Rejected(f"{name} is already pinned and has not changed.", f"Remove it: /unpin {name}")
    if not await _is_agreed(path, folder, ask):
        return "Nothing was pinned.", None
    values = pin_choice(path, _now(), text)
    _check_room(memory, values, f"{name} does")
    return "", Change(values)


async def _is_agreed(path: str, folder: Path, ask: Ask) -> bool:
    """Return True if this file may be pinned: the user is asked about one that may hold keys, or leads out."""
    from ikigai.app.attachments.attachments import find_doubts

    doubts = find_doubts(Path(os.path.realpath(path)), _display_name(path, folder), folder)
    lines = (*doubts, "It is then stored in the log, and sent every time.")
    return not doubts or (await ask(yes_or_no("Pin it?", lines))).key == "y"


def unpin(argument: str, memory: Memory, folder: Path) -> Change:
    """Return the change that removes a pin. Raise Rejected if no such file is pinned."""
    return Change({f"{PIN_PREFIX}{_find_pin(argument, {**memory.settings, **memory.unconfirmed}, folder).path}": None})


def list_pinned(memory: Memory, folder: Path) -> dict[str, str]:
    """Return the pinned files as /unpin takes them, with their sizes."""
    pins = list_pins(memory.settings)
    return {_display_name(pin.path, folder): f"{format_tokens(pin_tokens(pin))} tokens" for pin in pins}


def _parse_path(argument: str, folder: Path) -> str:
    """Return the absolute path of `argument`, which may stand in quotes. Raise Rejected if it is not a path."""
    quoted = len(argument) > 2 and argument[0] == argument[-1] and argument[0] in "'\""
    try:
        path = os.path.normpath(folder / Path(argument[1:-1] if quoted else argument).expanduser())
        if "\0" in path:
            raise ValueError(path)
        path.encode()
    except (RuntimeError, ValueError):
        raise Rejected(f"{clean_line(argument)!r} is not a path.", "/pin PATH pins a file.") from None
    return path


def _display_name(path: str, folder: Path) -> str:
    """Return `path` as it is shown: relative to the working directory if it lies there."""
    root = f"{str(folder).rstrip('/')}/"
    return clean_line(path.removeprefix(root))


def _read(path: str, name: str) -> str:
    """Return the text of an ordinary file.

    Nothing else is opened, because that can wait, have effects or never end.
    """
    try:
        mode = Path(path).lstat().st_mode
        if stat.S_ISLNK(mode):
            target = clean_line(str(Path(path).readlink()))
            raise Rejected(f"{name} is a link to {target}.", "Pin the file itself.")
        if stat.S_ISDIR(mode):
            raise Rejected(f"{name} is a folder.", "Pin the files in it that you need.")
        if not stat.S_ISREG(mode):
            raise Rejected(f"{name} is not a regular file.", "Copy its contents into a file, and pin that.")
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(MAX_PINNED_BYTES + 1) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
            whole = os.fstat(descriptor).st_size
    except FileNotFoundError:
        raise Rejected(f"There is no file {name}.", "/pin PATH pins one, /pin alone lists what is pinned.") from None
    except OSError as error:
        raise Rejected(
            f"{name} cannot be read: {error.strerror}.", "Check its permissions, or pin another file."
        ) from None
    if len(data) > MAX_PINNED_BYTES:
        figures = f"{max(whole, MAX_PINNED_BYTES + 1):,} bytes, and {MAX_PINNED_BYTES:,} can be pinned"
        raise Rejected(f"{name} is too large: {figures}.", "Pin a shorter version; models with tools can read files.")
    return _text(data, name)


def _text(data: bytes, name: str) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise Rejected(f"{name} is not UTF-8 text.", "Only text can be pinned.")
    if not text.strip():
        raise Rejected(f"{name} is empty.", "Pin it once it has content.")
    return text


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())


def _check_room(memory: Memory, values: Choices, subject: str) -> None:
    """Raise Rejected, with figures, if the fixed part of every request would leave no room for a conversation."""
    settings = {**memory.settings, **values}
    framed = request_frame(msgspec.structs.replace(memory, settings=settings, open=None))
    count = count_tokens(memory.provider, memory.model, memory.run.encoder(memory.model).envelope(framed))
    if count + MIN_CONVERSATION_TOKENS > memory.ceiling:
        taken = sum(map(pin_tokens, list_pins({key: each for key, each in settings.items() if key in values})))
        what = (
            f"{subject} not fit: it takes {format_tokens(taken)} tokens, with system prompt, tools and other pins "
            f"{format_tokens(count)}. The limit of a request is {format_tokens(memory.ceiling)}, with room for turns."
        )
        raise Rejected(what, "Pin less, or choose a larger /budget or a model with a larger context.")


def _find_pin(argument: str, settings: Choices, folder: Path) -> Pin:
    """Return the pin that `argument` names, by the path as shown or whole. Raise Rejected if none exists."""
    if not argument:
        raise Rejected("Which file?", "/pin lists what is pinned.")
    known = {each.path: each for each in list_pins(settings)}
    if pin_found := known.get(storable(_parse_path(argument, folder))):
        return pin_found
    names = [_display_name(path, folder) for path in known]
    closest = closest_names(argument, names) or names[:5]
    how = f"Pinned files: {', '.join(closest)}" if closest else "/pin PATH pins a file."
    raise Rejected(f"{clean_line(argument)} is not pinned.", how)


async def _refresh(argument: str, memory: Memory, folder: Path, ask: Ask) -> tuple[str, Change | None]:
    """Pin all files again as they are now, or the one that is named. A file that cannot be read, or that the user does
    not agree to, stays as it was.
    """
    chosen = [_find_pin(argument, memory.settings, folder)] if argument else list_pins(memory.settings)
    if not chosen:
        raise Rejected("No file is pinned.", "/pin PATH pins a file.")
    values, lines = dict[str, str | int | float | bool | None](), list[str]()
    for each in chosen:
        try:
            text = await asyncio.to_thread(_read, each.path, _display_name(each.path, folder))
        except Rejected as refusal:
            lines.append(f"{refusal.what} The version of {clean_line(each.at)} stays pinned.")
            continue
        if storable(text) == each.text:
            continue
        if await _is_agreed(each.path, folder, ask):
            values |= pin_choice(each.path, _now(), text)
        else:
            lines.append(f"{_display_name(each.path, folder)}: the version of {clean_line(each.at)} stays pinned.")
    if values:
        _check_room(memory, values, "What has changed does")
    elif not lines:
        lines.append("No pinned file has changed.")
    return "\n".join(lines), Change(values) if values else None


def _format_pins(memory: Memory, folder: Path) -> str:
    """Return the list of pins: path, tokens, time, and a mark if the file has changed since."""
    pins = list_pins(memory.settings)
    foreign = [
        f"{_display_name(each.path, folder)}  not in force: not pinned here. /pin PATH pins it, /unpin removes it"
        for each in list_pins(memory.unconfirmed)
        if each not in pins
    ]
    if not pins:
        return "\n".join(foreign) or "No pinned files. /pin PATH adds a copy of a file to the system prompt."
    names = [_display_name(each.path, folder) for each in pins]
    sizes = [pin_tokens(each) for each in pins]
    width = max(map(len, names))
    rows = [
        f"{name:<{width}}  {format_tokens(taken):>6} tokens  {clean_line(each.at)}{_stale(each, name)}"
        for each, name, taken in zip(pins, names, sizes, strict=True)
    ]
    rows.append(f"Together {format_tokens(sum(sizes))} tokens of every request.")
    rows.append("/pin --refresh [PATH] pins the current versions, /unpin PATH removes one.")
    return "\n".join((*foreign, *rows))


def _stale(pin: Pin, name: str) -> str:
    try:
        return "" if storable(_read(pin.path, name)) == pin.text else "  changed since"
    except Rejected as refusal:
        return f"  {refusal.what.removesuffix('.')} any more" if "no file" in refusal.what else f"  {refusal.what}"
