"""Run other agent programs beside ikigai, where they are installed: codex (Responses) and Claude Code (Messages)."""

import os
import shutil
from typing import NamedTuple


class Peer(NamedTuple):
    """A program that answers one question and ends, and the format of its requests."""

    name: str
    form: str
    command: tuple[str, ...]
    environ: dict[str, str]


def installed(address: str, home: str) -> list[Peer]:
    """Return the programs on the PATH, set up for a server at `address` and a user who has nothing but `home`."""
    environ = {"PATH": os.environ["PATH"], "HOME": home, "LANG": "C.UTF-8", "TERM": "xterm-256color"}
    provider = f'{{name="bench", base_url="{address}/v1", wire_api="responses", env_key="BENCH_KEY"}}'
    codex = ("codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
    codex += ("-c", f"model_providers.bench={provider}", "-c", "model_provider=bench", "-m", "gpt-5")
    claude = ("claude", "-p", "--model", "claude-sonnet-4-5", "--allowedTools", "Bash(echo:*)", "--")
    quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
    peers = [
        Peer("codex", "responses", codex, environ | {"BENCH_KEY": "none"}),
        Peer(
            "Claude Code",
            "messages",
            claude,
            environ | quiet | {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "none"},
        ),
    ]
    return [peer for peer in peers if shutil.which(peer.command[0])]
