"""Show a long text in the user's own pager ($PAGER), which gets the terminal meanwhile."""

import asyncio
import os
import shlex
import shutil
from asyncio.subprocess import PIPE

from ikigai.core.errors import Rejected
from ikigai.core.secrets.secret_variables import without_secrets

KNOWN_PAGERS = (("less", "-R", "-c"), ("more",))


def pager_command() -> list[str]:
    """Return the pager and its arguments. Raise Rejected if no pager is found."""
    if command := os.environ.get("PAGER", "").strip():
        try:
            return shlex.split(command)
        except ValueError:
            raise Rejected(f"$PAGER is not a command: {command}", "Set it to the name of a pager.") from None
    pager = next((known for known in KNOWN_PAGERS if shutil.which(known[0])), None)
    if pager is None:
        raise Rejected("No pager was found.", "Set $PAGER.")
    return [*pager]


async def page_text(text: str) -> None:
    """Show `text`, which is clean already, until the user closes the pager. Raise Rejected when it does not start."""
    program = pager_command()
    try:
        process = await asyncio.create_subprocess_exec(*program, stdin=PIPE, env=without_secrets(os.environ))
    except OSError as error:
        message = f"The pager {program[0]} cannot be started: {error.strerror}."
        raise Rejected(message, "Set $PAGER to another one.") from None
    await process.communicate(text.encode("utf-8", "replace"))  # one that is left before the end is no error
