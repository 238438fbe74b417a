"""Run the smallest exchange: read a line, send a request with httpx, write the words of the stream.

python -m tests.bench.bare_http URL [DSN]

The connection is there before the line is: it is kept as long as it takes. With a DSN each line is stored before it is
sent, as a row like ikigai's: an INSERT with psycopg, and its commit.
"""

import contextlib
import json
import sys
from collections.abc import Iterator
from itertools import count
from uuid import uuid4

import httpx
import psycopg

from ikigai.core.events import codec
from ikigai.core.events.events import UserMessage
from ikigai.store.log.append_attempt import new_event_id
from tests.bench.s03_append import INSERT


def main(url: str, dsn: str = "") -> None:
    numbers = count(1)
    limits = httpx.Limits(keepalive_expiry=None)
    with _agent(dsn) as (database, agent), httpx.Client(timeout=None, trust_env=False, limits=limits) as client:
        while True:
            line = input("❯ ")
            if database:
                row = codec.encode(UserMessage(line))
                database.execute(INSERT, (agent, next(numbers), new_event_id(), *row))
            body = {"model": "x", "stream": True, "messages": [{"role": "user", "content": line}]}
            with client.stream("POST", url, json=body) as answer:
                for data in answer.iter_lines():
                    if data.startswith("data: {"):
                        for choice in json.loads(data[6:])["choices"]:
                            sys.stdout.write(choice["delta"].get("content") or "")
                            sys.stdout.flush()
            print()


@contextlib.contextmanager
def _agent(dsn: str) -> Iterator[tuple[psycopg.Connection | None, object]]:
    """Yield a connection that commits by itself, and an agent to write to; without a DSN None."""
    if not dsn:
        yield None, None
        return
    agent = uuid4()
    with psycopg.connect(dsn, autocommit=True) as database:
        database.execute("insert into agents (id, name) values (%s, %s)", (agent, f"bare {agent}"))
        yield database, agent


if __name__ == "__main__":
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        main(*sys.argv[1:])
