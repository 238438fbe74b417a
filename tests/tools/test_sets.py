"""The sets of tools as an agent gets them: names, kinds, schemas, and nothing heavy imported for them."""

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from ikigai.core.tools.json_schema import build_schema
from ikigai.tools.files.factory import file_tools
from ikigai.tools.files.read_tracker import ReadTracker
from ikigai.tools.web.factory import web_tools
from tests import ROOT

TOOLS = (*file_tools(Path("/"), ReadTracker()), *web_tools(Path("/"), brave_key="x"))


def test_tools_of_a_set():
    assert [tool.name for tool in TOOLS if tool.set == "files"] == [
        *("edit_file", "glob", "grep", "list_files", "read_file", "write_file")
    ]
    assert [tool.name for tool in TOOLS if tool.set == "web"] == ["web_fetch", "web_search"]


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_schema_says_what_each_argument_is(tool):
    told = json.loads(build_schema(tool.arguments))
    assert told["type"] == "object" and told["additionalProperties"] is False
    plain = {"ignore_case"}  # its name says it
    assert all("description" in each for name, each in told["properties"].items() if name not in plain)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"path": "x", "no_such_argument": 1}', type=tool.arguments)
    assert 20 < len(tool.description) < 400


def test_nothing_heavy_is_imported_for_tools():
    program = (
        "import sys; import ikigai.tools.files.factory, ikigai.tools.web.factory;"
        "print(sorted({'httpx', 'PIL', 'markdownify', 'bs4', 'resource', 'ssl'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.replace("'", '"')) in (["ssl"], [])  # asyncio brings ssl
