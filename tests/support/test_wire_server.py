"""Tests of the wire server as a program of its own."""

import json
import subprocess
import sys
from pathlib import Path

from ikigai.core.request.reply import FailureKind, StreamFailed
from ikigai.providers.openai.provider import OpenAIProvider
from tests.providers.conftest import ask, collect, reply


async def test_it_runs_on_its_own(tmp_path: Path):
    script, record = tmp_path / "script.json", tmp_path / "record.jsonl"
    script.write_text(json.dumps(["Hello.", {"status": 401, "message": "no"}, {"text": "Half", "cut": 150}]))
    command = [sys.executable, "-m", "tests.support.wire_server", "--script", script, "--record", record]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: ASYNC220
        assert process.stdout
        provider = OpenAIProvider("openai", f"http://127.0.0.1:{process.stdout.readline().strip()}/v1", "key")
        try:
            found = [await collect(provider, ask(f"{number}")) for number in range(4)]
        finally:
            await provider.close()
            process.terminate()
    assert reply(found[0]).text == "Hello."
    assert [event.kind for event in found[1] if isinstance(event, StreamFailed)] == [FailureKind.AUTH]
    assert [event.kind for event in found[2] if isinstance(event, StreamFailed)] == [FailureKind.CUT]
    assert reply(found[3]).text == "You said: 3"
    sent = [json.loads(line)["body"]["messages"][-1]["content"] for line in record.read_text().splitlines()]
    assert sent == ["0", "1", "2", "3"]
