"""Tests that generated pages, the man page and pictures are those that their sources give now."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.generated import DOCS, GENERATED


@pytest.mark.parametrize("file", GENERATED, ids=lambda file: file.name)
def test_generated_file_is_current(file: Path) -> None:
    stored = file.read_text(encoding="utf-8") if file.exists() else ""
    assert stored == GENERATED[file](), f"{file.name} is out of date; run: python -m tests.docs"


@pytest.mark.skipif(not shutil.which("groff"), reason="groff is not installed")
def test_man_page_has_no_warnings() -> None:
    command = ["groff", "-man", "-ww", "-Tutf8", str(DOCS / "ikigai.1")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == "" and "--output-format" in done.stdout
