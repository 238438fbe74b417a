"""The user's own editor for a text: $VISUAL or $EDITOR, in the terminal that the screen has given up meanwhile."""

import asyncio
import os
import shlex
import shutil
import tempfile
from pathlib import Path

from ikigai.core.errors import Refused
from ikigai.core.secrets import without_secrets

KNOWN = ("sensible-editor", "editor", "nano", "vim", "vi")


def command() -> list[str]:
    """The editor and its arguments. Raises Refused when there is none."""
    wanted = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if wanted:
        try:
            return shlex.split(wanted)
        except ValueError:
            raise Refused(f"$VISUAL or $EDITOR is no command: {wanted}", "Set it to the name of an editor.") from None
    found = next(filter(None, map(shutil.which, KNOWN)), None)
    if found is None:
        raise Refused("There is no editor here.", "Set $VISUAL or $EDITOR to the name of one.")
    return [found]


async def edit(text: str) -> str:
    """`text` as the user leaves it; unchanged when the editor fails. Raises Refused when it cannot be started."""
    program = command()
    with tempfile.TemporaryDirectory(prefix="ikigai-") as folder:
        path = Path(folder) / "message.md"
        path.write_text(text, "utf-8", "replace")
        try:
            process = await asyncio.create_subprocess_exec(*program, str(path), env=without_secrets(os.environ))
        except OSError as error:
            what = f"The editor {program[0]} does not start: {error.strerror}."
            raise Refused(what, "Set $VISUAL or $EDITOR to another one.") from None
        if await process.wait() != 0:
            return text
        return path.read_text("utf-8", "replace").removesuffix("\n")
