"""Replacement of a file's content in one step, or in place where the system lets no other file take its name.

    stage         open new content for a name in a folder
    StagedFile    give it that name: a free one, or the present file's
    write_file    replace a small file of the user, links followed
    open_folder   a folder for these

The new content has no name until it is whole, so that a killed program leaves nothing of it. A system without such
files has one hidden name for it, which the next write of the same file removes. In place, a copy of the old content is
in the state folder until the new one is written: an error brings it back, and after a kill the next write names it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from ikigai.system import paths

COPY_PREFIX = "before-"
"""Beginning of the names of copies in the state folder."""
_CHUNK_BYTES = 1 << 20
_MAX_NAME_BYTES = 230
_UNNAMED = getattr(os, "O_TMPFILE", 0)
_NO_UNNAMED = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL)
"""Errors of file systems without O_TMPFILE."""
_FOLDER_CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS)
"""Errors when a folder takes no new file, although a file in it may be writable."""
_NOT_REPLACEABLE = (errno.EBUSY, errno.EXDEV, errno.EPERM, errno.EACCES)
"""Errors of a rename over a mounted file, or in a folder that lets only owners remove files."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_HAS_XATTRS = hasattr(os, "listxattr")


class Replaced(NamedTuple):
    """The file's new status; why it was written in place, as a clause ("" if it was replaced); and the copy that an
    earlier write left when it was cut short.
    """

    status: os.stat_result
    in_place: str = ""
    left: Path | None = None


class StagedFile:
    """New content for `name` in the folder with the descriptor `directory`, written to `descriptor`.

    `hidden` is its present name; "" for none, None if it lies in another folder.
    """

    def __init__(self, directory: int, name: str, descriptor: int, hidden: str | None) -> None:
        self._directory, self._name, self._hidden = directory, name, hidden
        self.descriptor = descriptor

    def write(self, data: bytes) -> None:
        """Write all of the content."""
        with os.fdopen(os.dup(self.descriptor), "wb") as file:
            file.write(data)

    def link(self) -> os.stat_result:
        """Give the content its name. Raise FileExistsError if that is not free."""
        os.fsync(self.descriptor)  # otherwise a crash soon after can leave an empty file
        if not self._hidden:
            self._link_unnamed(self._name)
        else:
            try:
                os.link(self._hidden, self._name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
            except FileExistsError:
                raise
            except OSError:  # a file system without links
                self._check_free()
                self._rename(self._hidden)
        sync_folder(self._directory)
        return os.fstat(self.descriptor)

    def replace(self, old: int, place: Path) -> Replaced:
        """Put the content in the place of the open file `old`, which is at `place`. Raise OSError.

        Mode, owner, extended attributes and hard links are kept.
        """
        os.fsync(self.descriptor)
        if not (why := self._reason_in_place(old)):
            try:
                self.rename()
                return Replaced(os.fstat(self.descriptor))
            except OSError as error:
                if error.errno not in _NOT_REPLACEABLE:
                    raise
                why = f"the system does not let it be replaced ({error.strerror})"
        left = overwrite(old, self.descriptor, place)
        return Replaced(os.fstat(old), why, left)

    def rename(self) -> None:
        """Put the content in the place of whatever has its name."""
        hidden = self._hidden
        if hidden == "":
            hidden = _hidden_name(self._name)
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._link_unnamed(hidden, over_left=True)
            self._hidden = hidden
        assert hidden
        self._rename(hidden)
        sync_folder(self._directory)

    def discard(self) -> None:
        """Remove the hidden name, and close the content."""
        if self._hidden:
            with contextlib.suppress(OSError):
                os.unlink(self._hidden, dir_fd=self._directory)
        os.close(self.descriptor)

    def _reason_in_place(self, old: int) -> str:
        if (names := os.fstat(old).st_nlink) > 1:
            return f"it has {names} names (hard links)"
        if self._hidden is None:
            return "its folder is not writable"
        return "" if _copy_attributes(self.descriptor, old) else "only so it keeps its owner"

    def _rename(self, hidden: str) -> None:
        os.rename(hidden, self._name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        self._hidden = ""

    def _link_unnamed(self, name: str, *, over_left: bool = False) -> None:
        source = f"/proc/self/fd/{self.descriptor}"
        while True:
            try:
                return os.link(source, name, dst_dir_fd=self._directory, follow_symlinks=True)
            except FileExistsError:
                if not over_left:
                    raise
                _remove_left(self._directory, name)

    def _check_free(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.stat(self._name, dir_fd=self._directory, follow_symlinks=False)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))


@contextlib.contextmanager
def stage(directory: int, name: str, mode: int = 0o600, *, is_new: bool = True) -> Iterator[StagedFile]:
    """Yield new content for `name` in this folder; nothing of it stays unless it gets its name. Raise OSError.

    Unless `is_new` it is for a present file, whose folder need not be writable.
    """
    staged = StagedFile(directory, name, *_open_staged(directory, name, mode, is_new))
    try:
        yield staged
    finally:
        staged.discard()


def write_file(file: Path, data: bytes, check: Callable[[], None] = lambda: None, *, keeps_mode: bool = False) -> None:
    """Make `data` the content of the file that this path leads to. Raise OSError.

    It is readable by its owner alone, unless it is there and `keeps_mode`. `check` is called right before, and may
    raise.
    """
    target = Path(os.path.realpath(file))  # a link, as into a folder of dotfiles, stays one
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(open_folder(target.parent))
        old = None
        with contextlib.suppress(FileNotFoundError):
            old = os.open(target.name, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
            stack.callback(os.close, old)
            if not keeps_mode:
                os.fchmod(old, 0o600)
        staged = stack.enter_context(stage(directory, target.name, is_new=old is None))
        staged.write(data)
        check()
        if old is None:
            staged.link()
        else:
            staged.replace(old, target)


@contextlib.contextmanager
def open_folder(folder: Path) -> Iterator[int]:
    """Yield a descriptor of the folder. O_PATH (Linux) needs no right to list it."""
    descriptor = os.open(folder, os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY))
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def sync_folder(directory: int) -> None:
    """Have the names in an open folder survive a loss of power, where it may be read."""
    with contextlib.suppress(OSError):
        readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
        try:
            os.fsync(readable)
        finally:
            os.close(readable)


def overwrite(old: int, new: int, place: Path) -> Path | None:
    """Write the content of one open file over the content of another, which is at `place`; return the copy that an
    earlier write left. Raise OSError; then the old content is there again, or the error names its copy.
    """
    copy, path, left = _open_copy(place)
    try:
        _copy_content(old, copy)
        try:
            _copy_content(new, old)
        except BaseException:
            try:
                _copy_content(copy, old)
            except OSError as error:
                kept, path = path, None
                where = f"; what it held before is in {kept}" if kept else ""
                raise OSError(error.errno, f"{error.strerror}. It is damaged now{where}") from None
            raise
    finally:
        os.close(copy)
        if path:
            path.unlink(missing_ok=True)
    return left


def _open_copy(place: Path) -> tuple[int, Path | None, Path | None]:
    """Return a new file for the old content, its path (None if it has none), and the copy that is left from before."""
    start = f"{COPY_PREFIX}{hashlib.sha256(os.fsencode(place)).hexdigest()[:12]}-"
    try:
        folder = paths.make_private(paths.state_dir())
        left = min(folder.glob(f"{start}*"), default=None)
        path = folder / f"{start}{os.urandom(4).hex()}"
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), path, left
    except OSError:
        with tempfile.TemporaryFile() as file:
            return os.dup(file.fileno()), None, None


def _copy_content(source: int, target: int) -> None:
    """Copy the content of one open file over another. A full disk is found out before anything is changed."""
    size, before = os.fstat(source).st_size, os.fstat(target).st_size
    if size and hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(target, 0, size)
        except OSError as error:  # not every file system can
            if error.errno in _FULL:
                os.ftruncate(target, before)
                raise
    at = 0
    while data := os.pread(source, _CHUNK_BYTES, at):
        at += os.pwrite(target, data, at)
    os.ftruncate(target, at)
    os.fsync(target)


def _open_staged(directory: int, name: str, mode: int, is_new: bool) -> tuple[int, str | None]:
    """Return the descriptor of an empty file, and its name as in `StagedFile`."""
    try:
        if _UNNAMED and os.path.exists("/proc/self/fd"):  # noqa: PTH110
            with _passing(_NO_UNNAMED):
                return os.open(".", _UNNAMED | os.O_RDWR | os.O_CLOEXEC, mode, dir_fd=directory), ""
        hidden = _hidden_name(name)
        _remove_left(directory, hidden)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(hidden, flags, mode, dir_fd=directory)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return descriptor, hidden
    except OSError as error:
        if is_new or error.errno not in _FOLDER_CLOSED:
            raise
        with tempfile.TemporaryFile() as file:
            return os.dup(file.fileno()), None


@contextlib.contextmanager
def _passing(numbers: tuple[int, ...]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in numbers:
            raise


def _hidden_name(name: str) -> str:
    is_short = len(os.fsencode(name)) <= _MAX_NAME_BYTES
    return f".{name if is_short else hashlib.sha256(os.fsencode(name)).hexdigest()}.ikigai-new"


def _remove_left(directory: int, hidden: str) -> None:
    """Remove what a killed program left under this name. Raise OSError if a running one has it."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(FileNotFoundError):
        left = os.open(hidden, flags, dir_fd=directory)
        try:
            fcntl.flock(left, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(left), os.stat(hidden, dir_fd=directory, follow_symlinks=False)):
                os.unlink(hidden, dir_fd=directory)
        except BlockingIOError:
            raise OSError(errno.EAGAIN, "another program is writing it") from None
        finally:
            os.close(left)


def _copy_attributes(new: int, old: int) -> bool:
    """Copy owner, extended attributes (with access lists) and mode; return False if the owner cannot be copied."""
    status = os.fstat(old)
    try:
        os.fchown(new, status.st_uid, status.st_gid)
    except OSError:
        now = os.fstat(new)
        if (now.st_uid, now.st_gid) != (status.st_uid, status.st_gid):
            return False
    for name in os.listxattr(old) if _HAS_XATTRS else ():
        with contextlib.suppress(OSError):
            os.setxattr(new, name, os.getxattr(old, name))
    os.fchmod(new, stat.S_IMODE(status.st_mode))
    return True
