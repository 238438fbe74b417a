"""Put pictures into the input as mentions: from the clipboard, and dropped onto the terminal as paths."""

import asyncio
import os
import re

from ikigai.core.commands.mentions import format_mention
from ikigai.terminal.screen import Screen

MAX_DROPPED_CHARACTERS = 8_000
_MAY_BE_PICTURES = re.compile(r"""\s*(["']?/|file:///).*\.(png|jpe?g|webp|gif)["']?\s*""", re.IGNORECASE | re.DOTALL)
"""A text that begins as an absolute path and ends as a picture's name; only the disk can tell."""


def may_be_pictures(text: str) -> bool:
    """Return True if a pasted text may be the paths of pictures."""
    return len(text) <= MAX_DROPPED_CHARACTERS and _MAY_BE_PICTURES.fullmatch(text) is not None


async def insert_dropped(screen: Screen, text: str) -> None:
    """Insert mentions of the pictures whose paths `text` holds, or `text` itself if it is anything else."""
    from ikigai.app.attachments import pasted_pictures

    screen.input.insert(await asyncio.to_thread(pasted_pictures.mention_dropped, text) or text)


async def paste_picture(screen: Screen, ephemeral: str) -> None:
    """Store the picture of the clipboard as `save_pasted` does, and insert a mention of it. Raise Rejected."""
    from ikigai.app.attachments import pasted_pictures
    from ikigai.terminal.clipboard_picture import read_clipboard_picture

    data = await read_clipboard_picture(os.environ)
    name = await asyncio.to_thread(pasted_pictures.save_pasted, data, ephemeral)
    screen.input.insert(f"{format_mention(name)} ")
