"""Give tests a user of the program: a home, a database, a model server, and the log afterwards."""

import asyncio
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ikigai.cli.main import wants_json
from tests.e2e.program import PATIENCE, Program, command, environment, run
from tests.support import json_schema, kept_connections, starting
from tests.support.invariants import check
from tests.support.wire_server import Answer, Received, WireServer

ECHO = ("-m", "scripted/echo")
WIRE = ("-m", "wire/x")


class Account:
    """One user with a home of their own and a database in the environment."""

    def __init__(self, home: Path, dsn: str) -> None:
        self.home, self.dsn = home, dsn

    def configure(self, text: str) -> None:
        """Make `text` the user's configuration file."""
        file = self.home / ".config" / "ikigai" / "config.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def environment(self, **more: str) -> dict[str, str]:
        return {"IKIGAI_DATABASE_URL": self.dsn, **more}

    def run(
        self, *arguments: str, input: str = "", module: str = "ikigai", **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run the program without a terminal, to its end. If it is asked for JSON, check all that it prints."""
        result = run(self.home, *arguments, input=input, module=module, **self.environment(**env))
        if wants_json(arguments):
            json_schema.check(result.stdout)
        return result

    def say(self, *texts: str, flags: tuple[str, ...] = ECHO, **env: str) -> None:
        """Say these messages in the user's conversation, one behind the other, in one run of the program."""
        turns = "".join(f"{json.dumps({'type': 'user', 'text': text})}\n" for text in texts)
        said = self.run(*flags, "-c", "-p", "--input-format", "stream-json", input=turns, **env)
        assert said.returncode == 0, said

    def start(self, *arguments: str, typed: bool = False, **env: str) -> "starting.Piped | subprocess.Popen[str]":
        """Start the program without a terminal; its standard input is closed if nothing is to be `typed`."""
        around = environment(self.home, **self.environment(**env))
        if starting.shareable(around):
            return starting.start_piped("ikigai", arguments, around, self.home, typed)
        return subprocess.Popen(
            command(*arguments),
            stdin=subprocess.PIPE if typed else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=around,
            cwd=self.home,
        )

    def shell(self, line: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a line of bash, in which `ikigai` is the program; its standard input is closed unless it is
        redirected.
        """
        return subprocess.run(
            ["bash", "-c", f'ikigai() {{ {starting.shell_command()} "$@"; }}\n{line}'],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environment(self.home, **self.environment(**env)),
            cwd=self.home,
            timeout=120,
        )

    def terminal(self, *arguments: str, **options: Any) -> Program:
        """Start the program in a terminal; see `Program` for the options."""
        options["env"] = self.environment(**options.get("env", {}))
        return Program(self.home, *arguments, **options)

    def rows(self, *kinds: str) -> list[tuple[str, str, dict[str, Any]]]:
        """Return kind, content and data of the events of these kinds (without arguments of all), in order."""
        rows = self._query("select kind, coalesce(content, ''), data from messages order by id")
        return [(kind, content, data or {}) for kind, content, data in rows if not kinds or kind in kinds]

    def said(self, *kinds: str) -> list[str]:
        """Return the texts of the events of these kinds."""
        return [content for _, content, _ in self.rows(*kinds)]

    def endings(self) -> list[str]:
        """Check that the log is sound, no turn is open and no process is left; return how the turns ended."""
        self.alone(lambda pid: not Path(f"/proc/{pid}").exists())
        check(self.dsn)
        return self.turns()

    def alone(self, but: Callable[[str], bool] = lambda pid: True) -> None:
        """Wait until no program is connected any more, of those whose process ids `but` accepts."""
        deadline = time.monotonic() + PATIENCE
        while there := [pid for pid in self._connected() if but(pid)]:
            assert time.monotonic() < deadline, f"programs are still connected: {there}"
            time.sleep(0.01)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Let the database answer no connected program while the block runs."""
        query = (
            "select pid from pg_stat_activity where datname = current_database() and application_name like 'ikigai/%'"
        )
        backends = [pid for (pid,) in self._query(query)]
        assert backends
        for pid in backends:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in backends:
                os.kill(pid, signal.SIGCONT)

    def quiet(self) -> bool:
        """Return True if no connected program has asked the database anything for a second."""
        asked = "state <> 'idle' or state_change > clock_timestamp() - interval '1 second'"
        programs = "datname = current_database() and application_name like 'ikigai/%'"
        return not self._query(f"select from pg_stat_activity where {programs} and ({asked})")

    def busy(self) -> list[str]:
        """Return the statements under way in the database, but this one."""
        query = "select query from pg_stat_activity where state = 'active' and pid <> pg_backend_pid()"
        return [text for (text,) in self._query(f"{query} and datname = current_database()")]

    def _connected(self) -> list[str]:
        """Return the process ids of the programs that are connected to the database."""
        query = "select split_part(application_name, '/', 3) from pg_stat_activity where datname = current_database()"
        return [pid for (pid,) in self._query(query) if pid]

    def turns(self) -> list[str]:
        """Return how the turns ended so far."""
        return [data["ending"] for _, _, data in self.rows("turn_end")]

    def drafts(self) -> list[str]:
        """Return the saved parts of replies that were streaming."""
        return [text for (text,) in self._query("select text from drafts")]

    def script(self, *replies: object) -> tuple[str, str]:
        """Return flags for a model that gives these replies; see `ikigai.providers.scripted`."""
        file = self.home / "script.json"
        file.write_text(json.dumps(replies))
        return "-m", f"scripted/{file}"

    def agents(self) -> list[str]:
        """Return the names of agents, oldest first."""
        return [name for (name,) in self._query("select name from agents order by created_at")]

    def agent_id(self, name: str) -> str:
        """Return the id of the agent of this name."""
        ((id,),) = self._query("select id::text from agents where name = %s", name)
        return id

    def _query(self, statement: str, *values: str) -> list[tuple[Any, ...]]:
        return kept_connections.query(self.dsn, statement, values)

    def log_file(self) -> str:
        """Return the program's log file."""
        file = self.home / ".local" / "state" / "ikigai" / "ikigai.log"
        return file.read_text() if file.exists() else ""


class Wire:
    """A model server of the test's own; `script` holds its answers, `requests` the requests that came."""

    def __init__(self, script: Iterable[Answer | str] = ()) -> None:
        self.server = WireServer(script)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def answers(self, *script: Answer | str) -> None:
        """Give these answers from now on, and then echo each message."""
        self.server.script[:] = script

    @property
    def requests(self) -> list[Received]:
        return self.server.requests

    def asked(self, seconds: float = PATIENCE) -> bool:
        """Wait for a request."""
        return asyncio.run_coroutine_threadsafe(self.server.got_one.wait(), self._loop).result(seconds)

    def messages(self, number: int = -1) -> list[dict[str, Any]]:
        """Return the messages of one request, the last by default."""
        return self.requests[number].json["messages"]

    @contextmanager
    def running(self) -> Iterator["Wire"]:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.server.start(), self._loop).result(10)
        try:
            yield self
        finally:
            asyncio.run_coroutine_threadsafe(self.server.stop(), self._loop).result(10)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


def refused(result: "subprocess.CompletedProcess[str]", code: int, *words: str) -> None:
    """Check that the program printed one plain error with a remedy, in few lines, and ended with this exit code."""
    told_plainly(result.stderr, *words)
    assert result.returncode == code, (result.returncode, result.stderr)
    assert "Traceback" not in result.stdout


def told_plainly(text: str, *words: str) -> None:
    """Check that the text is one plain error with a remedy, in at most three lines and without a traceback."""
    assert "Traceback" not in text
    lines = text.strip().splitlines()
    assert 1 <= len(lines) <= 3 and text.count("ikigai: ") == 1 and lines[0].startswith("ikigai: "), text
    sentences = [part for part in text.strip().replace("? ", ". ").split(". ") if part]
    assert len(sentences) >= 2, f"what failed, and what to do: {text}"
    for word in words:
        assert word in text, f"{word!r} is missing in {text!r}"


def figures_of(result: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    """Return the figures of a slash command that printed its result as JSON."""
    return json.loads(result.stdout)["command"]["figures"]


def lines_of(text: str) -> list[dict[str, Any]]:
    """Return the objects of JSON lines."""
    return [json.loads(line) for line in text.splitlines()]
