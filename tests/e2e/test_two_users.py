"""Tests of users of one operating system who share a database and its role: each has a last conversation."""

import json
import os
import pwd
from pathlib import Path

import psycopg
import pytest

from tests.e2e.account import ECHO, Account

AS_USER = "tests.e2e.as_user"


class Person:
    """A user of the operating system with a home of their own."""

    def __init__(self, uid: int, name: str, above: Path, dsn: str) -> None:
        self.name, self._uid = name, {"TEST_UID": str(uid)}
        self._account = Account(above / name, dsn)
        self._account.home.mkdir()

    def prints(self, *arguments: str) -> str:
        """Return the name of the agent that a print run used."""
        done = self._account.run(*ECHO, "-p", "--json", *arguments, module=AS_USER, **self._uid)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["agent"]

    def talks(self, text: str) -> str:
        """Say `text` in a terminal; return the name of the agent that opened."""
        with self._account.terminal(*ECHO, columns=120, module=AS_USER, env=self._uid) as program:
            program.ready()
            program.say(text)
            program.wait_for(f"● {text}")
            program.settled()
            name = program.status().split(" · ")[0].strip()
            program.leave()
        return name


@pytest.fixture
def people(tmp_path: Path, dsn: str) -> list[Person]:
    """Return two users with names and one without. Skips unless root runs the tests."""
    if os.geteuid():
        pytest.skip("needs root, to become other users")
    known = {entry.pw_uid: entry.pw_name for entry in pwd.getpwall() if entry.pw_uid}
    unnamed = next(uid for uid in range(54321, 60000) if uid not in known)
    return [Person(uid, name, tmp_path, dsn) for uid, name in (*[*known.items()][:2], (unnamed, str(unnamed)))]


def test_each_user_goes_on_with_their_own_conversation(people: list[Person], dsn: str):
    began = [each.talks(f"words of {each.name}") for each in people]
    assert len({*began}) == len(people) == 3
    for each, name in zip(people, began, strict=True):
        assert each.prints("an aside") not in began and each.prints("-c", "more") == name
    assert [each.talks("again") for each in people] == began
    with psycopg.connect(dsn) as connection:
        uses = connection.execute("select os_user, name from agent_uses join agents on id = agent_id").fetchall()
    assert {*uses} == {(each.name, name) for each, name in zip(people, began, strict=True)}


def test_continue_of_a_user_without_a_conversation_begins_one(people: list[Person]):
    first, second, _ = people
    name = first.talks("mine")
    other = second.prints("-c", "theirs")
    assert other != name and second.talks("on") == other and first.talks("on") == name
