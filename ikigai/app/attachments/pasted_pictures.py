"""Keep pictures that were pasted from the clipboard, and find pictures whose paths were dropped.

A pasted picture is a file of the data folder that only the user reads. A message mentions it by its name alone. What is
sent stands in the log; the file stays a week for the input that mentions it: a draft, an earlier message, /edit.
Those of an ephemeral agent are in a folder of its own, which is removed with it.
"""

import contextlib
import os
import re
import shlex
import time
import urllib.parse
from pathlib import Path

from ikigai.core.errors import Rejected
from ikigai.core.text.sanitize import clean_line
from ikigai.images import media_type_of
from ikigai.system import paths
from ikigai.system.paths import pasted_folder
from ikigai.tools.files.safe_paths import open_file

KEPT_SECONDS = 7 * 24 * 3600
_ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "image/webp": "webp", "image/gif": "gif"}
_NAME = re.compile(r"pasted-\d{8}-\d{6}(-\d+)?\.(png|jpg|webp|gif)")


def find_pasted(name: str) -> Path | None:
    """Return the resolved path of the pasted picture of this name, or None."""
    if not _NAME.fullmatch(name):
        return None
    folder = pasted_folder().resolve()
    return next((path for path in (folder / name, *folder.glob(f"*/{name}")) if path.is_file()), None)


def save_pasted(data: bytes, ephemeral: str = "") -> str:
    """Store a picture and return its name; block. It belongs to the ephemeral agent of the id `ephemeral`, if given.

    Raise Rejected if it is none, or cannot be stored.
    """
    ending = _ENDINGS.get(media_type_of(data[:16]))
    if ending is None:
        raise Rejected("The clipboard does not contain a PNG, JPEG, WebP or GIF.", "@path attaches a picture's file.")
    remove_old()
    stem = time.strftime("pasted-%Y%m%d-%H%M%S")
    try:
        folder = paths.make_private(pasted_folder())
        if ephemeral:
            folder = paths.make_private(pasted_folder(ephemeral))
        for number in range(1, 100):
            name = f"{stem}.{ending}" if number == 1 else f"{stem}-{number}.{ending}"
            with contextlib.suppress(FileExistsError):
                descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                return name
    except OSError as error:
        what = f"The picture cannot be stored in {clean_line(str(pasted_folder()))}: {error.strerror}."
        raise Rejected(what, "Check the folder and the disk.") from None
    raise Rejected("Too many pictures were pasted within one second.", "Try again.")


def remove_old() -> None:
    """Remove pictures that were pasted more than a week ago; block."""
    with contextlib.suppress(OSError):
        for path in pasted_folder().iterdir():
            if _NAME.fullmatch(path.name) and time.time() - path.stat().st_mtime > KEPT_SECONDS:
                path.unlink()


def mention_dropped(text: str) -> str:
    """Return mentions of the pictures whose paths are all of `text`, as terminals write dropped files: in quotes, with
    backslashes before spaces, or as file:// URLs. Return "" if it is anything else; block.
    """
    from ikigai.core.commands.mentions import format_mention

    names = _dropped_paths(text)
    return " ".join(map(format_mention, names)) if names and all(map(_is_picture, names)) else ""


def _dropped_paths(text: str) -> list[str]:
    text = text.strip()
    if _is_picture(text):  # with spaces, and no quotes
        return [text]
    try:
        words = shlex.split(text)
    except ValueError:
        return []
    return [_path_of_url(word) if word.startswith("file://") else word for word in words]


def _path_of_url(url: str) -> str:
    return urllib.parse.unquote(url.removeprefix("file://"))


def _is_picture(name: str) -> bool:
    if not name.startswith("/") or "\n" in name:
        return False
    try:
        with open_file(Path(os.path.realpath(name))) as file:
            return bool(media_type_of(file.read(16)))
    except (OSError, ValueError):
        return False
