"""Delete the files of unsent input, unsaved events and unfinished writes that hold a purged text, after a question."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from pathlib import Path

from ikigai.cli import ask
from ikigai.core.events.codec import Row
from ikigai.core.relocation.redact import PurgeTarget
from ikigai.system import paths
from ikigai.system.file_replacement import COPY_PREFIX
from ikigai.system.output import print_lines

MAX_SEARCHED_BYTES = 64_000_000
"""Largest file of the state folder, in bytes, that is searched."""
DELETABLE_FILES = ("unsent-*.txt", "unsaved-*.jsonl", ".unsaved-*", f"{COPY_PREFIX}*")


def offer(target: PurgeTarget, yes: bool) -> None:
    """Name the files in the state folder that hold the text, and delete those that can go.

    With `yes` they are deleted without a question. Without a terminal to ask at they stay.
    """
    holding = [file for file in _files(paths.state_dir()) if _holds(file, target)]
    deletable = [file for file in holding if any(file.match(pattern) for pattern in DELETABLE_FILES)]
    for file in holding:
        if file not in deletable:
            print_lines(f"It is also in a file of ikigai, which is kept: {file}")
    if not deletable:
        return
    if not yes:
        for file in deletable:
            print_lines(f"It is also in {file}")
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            print_lines("They are kept, because there is no terminal for the question. Add --yes to delete them.")
            return
        if ask.read_answer("Delete these files? Their unsent or unsaved text is lost. [y/N] ").lower() != "y":
            print_lines("They are kept.")
            return
    for file in deletable:
        print_lines(_delete(file))


def _delete(file: Path) -> str:
    """Delete the file unless a running program has it open, and return the sentence that says what happened."""
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.unlink()
        finally:
            os.close(descriptor)
    except BlockingIOError:
        return f"Not deleted, because a running ikigai has it open: {file}. Clear its input there, then purge again."
    except OSError as error:
        return f"Not deleted ({error.strerror}): {file}"
    return f"Deleted: {file}"


def _holds(file: Path, target: PurgeTarget) -> bool:
    with contextlib.suppress(OSError):
        text = file.read_bytes().decode(errors="replace")
        return target.may_match(Row("", text, text))  # as it is, and as JSON within JSON writes it
    return False


def _files(folder: Path) -> list[Path]:
    try:
        files = [file for file in sorted(folder.iterdir()) if file.is_file()]
        return [file for file in files if file.stat().st_size <= MAX_SEARCHED_BYTES]
    except OSError:
        return []
