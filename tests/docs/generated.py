"""Name every generated file of the documentation and the function that makes it."""

from collections.abc import Callable
from pathlib import Path

from tests import ROOT
from tests.docs import man_page, pictures, reference

DOCS = ROOT / "docs"

GENERATED: dict[Path, Callable[[], str]] = {
    DOCS / "reference" / "settings.md": reference.settings,
    DOCS / "reference" / "commands.md": reference.commands,
    DOCS / "reference" / "keys.md": reference.keys,
    DOCS / "reference" / "exit-codes.md": reference.exit_codes,
    DOCS / "reference" / "command-line.md": reference.command_line,
    DOCS / "reference" / "json.md": reference.json_objects,
    DOCS / "reference" / "views.md": reference.views,
    DOCS / "images" / "screen.svg": pictures.picture,
    DOCS / "images" / "session.svg": pictures.recording,
    DOCS / "ikigai.1": man_page.man_page,
}
