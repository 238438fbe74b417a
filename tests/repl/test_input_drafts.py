"""Tests of the drafts of the input: what is in their files while the user types and sends."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from ikigai.repl.drafts.draft_files import DraftFiles
from ikigai.repl.drafts.input_drafts import SAVE_INTERVAL, InputDrafts


async def test_draft_that_was_sent_leaves_its_file_while_more_is_sent(tmp_path: Path) -> None:
    """A kill would restore it as unsent input, although it was carried out."""
    screen: Any = SimpleNamespace(view=None, unsent="/clear", input=None)
    drafts = InputDrafts(cast("Any", screen), lambda: "agent", dict, list)
    drafts._files = DraftFiles(tmp_path, {})
    drafts.changed(entered=True)
    while not [*tmp_path.iterdir()]:
        await asyncio.sleep(0.01)
    screen.unsent = ""
    loop = asyncio.get_running_loop()
    until = loop.time() + 20 * SAVE_INTERVAL
    while [*tmp_path.iterdir()]:  # never a pause that is long enough for a save of its own
        assert loop.time() < until
        drafts.changed()
        drafts.sent()
        await asyncio.sleep(SAVE_INTERVAL / 4)
