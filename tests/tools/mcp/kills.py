"""Kills of MCP servers, of the process that speaks to them, and of ikigai, with SIGKILL and at any moment.

    python -m tests.tools.mcp.kills [KILLS] [SEED]

A round starts an ikigai (`python -m tests.tools.mcp.kills --hold`) with 24 servers, each with a daemon in a session
of its own, and calls under way. In half of the rounds it is killed while they start. In the other half some of them are
killed before, or their daemons, or the process that speaks to them: what a killed server leaves ends while ikigai goes
on. At its end no process of the round is left; the first one that is ends the run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from ikigai.tools.mcp.host_messages import CallTool, ServerLaunch
from ikigai.tools.mcp.servers import HOST_MODULE, McpServer, McpServers
from ikigai.tools.shell.supervised_process import SUPERVISOR_FILE
from tests import ROOT

SCRIPT = ROOT / "tests" / "tools" / "mcp" / "daemon_server.sh"
MARK = "IKIGAI_TEST_KILLS"
"""The variable that each process of a round has in its environment."""
END_SECONDS = 60.0
SERVERS = 24
MAX_KILLS = 40
"""Most kills of a round before ikigai itself is killed."""


async def hold(folder: Path) -> None:
    """Be an ikigai with three servers, until it is killed; say when they are ready."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH", MARK) if name in os.environ}
    found = dict[str, McpServer]()
    for name in (f"server{number}" for number in range(SERVERS)):
        found[name] = McpServer(ServerLaunch(name, ("sh", str(SCRIPT)), environment, str(ROOT)))
    servers = McpServers(found, environment, folder / "known.json")
    servers.start()
    print("started", flush=True)
    for name in found:
        await servers.wait_settled(name)
    print("ready", flush=True)

    async def call(name: str) -> None:
        while True:
            await servers.carry_out(CallTool(servers.next_id(), name, "wait"))
            await asyncio.sleep(0.1)

    await asyncio.gather(*map(call, found))


def run(kills: int, seed: int) -> int:
    """Kill so often; return the number of kills. Raise AssertionError where a process is left."""
    chance, done = random.Random(seed), 0
    while done < kills:
        with tempfile.TemporaryDirectory(prefix="ikigai-kills-") as folder:
            done += _round(chance, Path(folder))
        print(f"{done} kills, 0 processes left", flush=True)
    return done


def _round(chance: random.Random, folder: Path) -> int:
    mark, done = uuid.uuid4().hex, 0
    command = (sys.executable, "-m", "tests.tools.mcp.kills", "--hold", str(folder))
    environment = {**os.environ, MARK: mark}
    program = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert program.stdout
    try:
        program.stdout.readline()
        if chance.random() < 0.5:
            program.stdout.readline()  # until the servers are ready
            for _ in range(chance.randint(1, MAX_KILLS)):
                others = [pid for pid in _alive(mark) if pid != program.pid and _is_killed(pid)]
                with contextlib.suppress(ProcessLookupError, IndexError):  # while all of them are started again
                    os.kill(chance.choice(others), signal.SIGKILL)
                    done += 1
                time.sleep(chance.random() * 0.1)
            daemons = _until(lambda: _daemons(mark), SERVERS)
            assert len(daemons) <= SERVERS, f"daemons of killed servers are left: {daemons}"
        else:
            time.sleep(chance.random() * 3)
    finally:
        program.kill()
        program.wait()
        program.stdout.close()
    left = _until(lambda: _alive(mark), 0)
    described = [(pid, _read(pid, "cmdline")) for pid in left]
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert not left, f"left after {done + 1} kills: {described}"
    return done + 1


def _until(processes: Callable[[], list[int]], most: int) -> list[int]:
    """Wait until there are at most so many of the processes; return those that are left."""
    until = time.monotonic() + END_SECONDS
    while len(left := processes()) > most and time.monotonic() < until:
        time.sleep(0.05)
    return left


def _daemons(mark: str) -> list[int]:
    return [pid for pid in _alive(mark) if _read(pid, "cmdline").startswith("sleep")]


def _is_killed(pid: int) -> bool:
    """Return True for a server, its daemon or the process of all servers, not for their supervisors: whoever kills
    these asks for what they keep.
    """
    command = _read(pid, "cmdline")
    is_round = HOST_MODULE in command or str(SCRIPT) in command or "sleep" in command
    return is_round and Path(SUPERVISOR_FILE).name not in command


def _alive(mark: str) -> list[int]:
    """Return the processes with the mark in their environment; a zombie has none."""
    return [pid for pid in _pids() if f"{MARK}={mark}" in _read(pid, "environ")]


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _read(pid: int, file: str) -> str:
    with contextlib.suppress(OSError):
        return (Path("/proc") / str(pid) / file).read_bytes().decode(errors="replace").replace("\0", "\n")
    return ""


if __name__ == "__main__":
    if sys.argv[1:2] == ["--hold"]:
        asyncio.run(hold(Path(sys.argv[2])))
    else:
        numbers = [int(each) for each in sys.argv[1:]]
        run(*numbers, *(1_000, 1)[len(numbers) :])
