"""Reads a picture from a file, as the attachments of a message and the tools do."""

from pathlib import Path

from ikigai.core.events.messages import Image
from ikigai.images import read_picture


def attach(path: Path) -> Image:
    """Return the picture in this file, which holds one."""
    with path.open("rb") as file:
        image = read_picture(file, str(path))
    assert image
    return image
