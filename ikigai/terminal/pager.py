"""The user's own pager for a long text: $PAGER, in the terminal that the screen has given up meanwhile."""

import asyncio
import os
import shlex
import shutil
from asyncio.subprocess import PIPE

from ikigai.core.errors import Refused
from ikigai.core.secrets import without_secrets

KNOWN = (("less", "-R", "-c"), ("more",))


def command() -> list[str]:
    """The pager and its arguments. Raises Refused when there is none."""
    if wanted := os.environ.get("PAGER", "").strip():
        try:
            return shlex.split(wanted)
        except ValueError:
            raise Refused(f"$PAGER is no command: {wanted}", "Set it to the name of a pager.") from None
    found = next((known for known in KNOWN if shutil.which(known[0])), None)
    if found is None:
        raise Refused("There is no pager here.", "Set $PAGER to the name of one.")
    return [*found]


async def page(text: str) -> None:
    """Show `text`, made safe already, until the user has seen enough. Raises Refused when the pager does not start."""
    program = command()
    try:
        process = await asyncio.create_subprocess_exec(*program, stdin=PIPE, env=without_secrets(os.environ))
    except OSError as error:
        what = f"The pager {program[0]} does not start: {error.strerror}."
        raise Refused(what, "Set $PAGER to another one.") from None
    await process.communicate(text.encode("utf-8", "replace"))  # one that is left before the end is no error
