"""Open a text in the user's own editor ($VISUAL or $EDITOR), which gets the terminal meanwhile."""

import asyncio
import os
import shlex
import shutil
import tempfile
from pathlib import Path

from ikigai.core.errors import Rejected
from ikigai.core.secrets.secret_variables import without_secrets
from ikigai.system import paths

KNOWN_EDITORS = ("sensible-editor", "editor", "nano", "vim", "vi")


def editor_command() -> list[str]:
    """Return the editor and its arguments. Raise Rejected if no editor is found."""
    if command := os.environ.get("VISUAL") or os.environ.get("EDITOR"):
        try:
            return shlex.split(command)
        except ValueError:
            raise Rejected(
                f"$VISUAL or $EDITOR is not a command: {command}", "Set it to the name of an editor."
            ) from None
    editor = next(filter(None, map(shutil.which, KNOWN_EDITORS)), None)
    if editor is None:
        raise Rejected("No editor was found.", "Set $VISUAL or $EDITOR.")
    return [editor]


async def edit_text(text: str) -> str:
    """Return `text` as the user leaves it; unchanged when the editor fails. Raise Rejected when it does not start."""
    program = editor_command()
    with tempfile.TemporaryDirectory(prefix="ikigai-") as folder:
        path = Path(folder) / "message.md"
        with paths.open_private(path, "wb") as file:
            file.write(text.encode("utf-8", "replace"))
        try:
            process = await asyncio.create_subprocess_exec(*program, str(path), env=without_secrets(os.environ))
        except OSError as error:
            message = f"The editor {program[0]} cannot be started: {error.strerror}."
            raise Rejected(message, "Set $VISUAL or $EDITOR to another one.") from None
        if await process.wait() != 0:
            return text
        return path.read_text("utf-8", "replace").removesuffix("\n")
