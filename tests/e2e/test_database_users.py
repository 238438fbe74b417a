"""Users of a shared database: made by the program, each with agents of their own, and removed again."""

import re
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from tests.conftest import address
from tests.e2e.account import ECHO, Account


def test_two_users_share_one_agent_and_see_nothing_else(tmp_path: Path, dsn: str, people: tuple[str, str]) -> None:
    admin = Account(tmp_path / "admin", dsn)
    admin.home.mkdir()
    accounts: list[Account] = []
    for name in people:
        added = admin.run("db", "users", "add", name)
        assert added.returncode == 0, added.stderr
        (password,) = re.findall(r"shown only now: (\S+)", added.stdout)
        assert password not in added.stdout.replace(f"now: {password}", "") and f"postgresql://{name}@" in added.stdout
        accounts.append(Account(tmp_path / name, address(dsn, user=name, password=password)))
        accounts[-1].home.mkdir()
    anna, bela = accounts
    for name in ("docs", "notes"):
        said = anna.run(*ECHO, "-p", f"{name} of the lighthouse")
        assert said.returncode == 0, said.stderr
    listed = anna.run("agents", "list", "--all").stdout
    one, other = re.findall(r"(?m)^  (\S+)", listed)[-2:]
    assert "lighthouse" not in bela.run("history", "search", "lighthouse").stdout
    assert bela.run("agents", "show", one).returncode == 2
    shared = anna.run("agents", "share", one, "with", people[1])
    assert shared.returncode == 0 and f"{people[1]} may read {one} now" in shared.stdout, shared.stderr
    found = bela.run("history", "search", "lighthouse").stdout
    assert one in found and other not in found
    refused = bela.run(*ECHO, "-p", "-r", one, "mine")
    assert refused.returncode == 75 and "you may only read it" in refused.stderr
    assert "owns 2 agents" in admin.run("db", "users", "remove", people[0]).stderr
    heir = str(conninfo_to_dict(dsn)["user"])
    removed = admin.run("db", "users", "remove", people[0], "--give-to", heir)
    assert f"{heir} owns the 2 agents now. The role was dropped." in removed.stdout, removed.stderr
    assert anna.run("agents").returncode != 0
    assert admin.run("db", "users", "remove", people[1]).returncode == 0


@pytest.fixture
def team(tmp_path: Path, dsn: str, people: tuple[str, str]) -> Iterator[tuple[str, Account, Account]]:
    """Yield a role of which two users are members and which nobody else has, and the accounts of these users."""
    admin = Account(tmp_path / "admin", dsn)
    admin.home.mkdir()
    group, accounts = f"team_{uuid4().hex[:8]}", list[Account]()
    with psycopg.connect(dsn, autocommit=True) as server:
        server.execute(sql.SQL("create role {}").format(sql.Identifier(group)))
        for name in people:
            assert admin.run("db", "users", "add", name).returncode == 0
            server.execute(sql.SQL("grant {} to {}").format(sql.Identifier(group), sql.Identifier(name)))
            accounts.append(Account(tmp_path / name, address(dsn, user=name)))
            accounts[-1].home.mkdir()
        anna, bela = accounts
        anna.say("the lighthouse of anna")
        yield group, anna, bela
        server.execute(sql.SQL("drop role {}").format(sql.Identifier(group)))


def test_share_with_a_role_of_an_odd_name_is_ended_by_the_line_that_it_shows(
    team: tuple[str, Account, Account], dsn: str
) -> None:
    _, anna, _ = team
    (docs,) = anna.agents()
    odd = f'Ünï "Q" o\'neil $HOME 😀 {uuid4().hex[:8]}'
    admin = Account(anna.home.parent / "admin", dsn)
    try:
        assert admin.run("db", "users", "add", odd).returncode == 0
        shared = anna.run("agents", "share", docs, "with", odd)
        line = shared.stdout.strip().partition("To end that: ")[2]
        assert Account(anna.home, address(dsn, user=odd)).run("agents", "show", docs).returncode == 0
        assert anna.run("agents", "share", docs, "with", odd.swapcase()).returncode == 2
        ended = anna.shell(line)
        assert ended.returncode == 0 and "is not shared with" in ended.stdout, ended.stderr
    finally:
        assert admin.run("db", "users", "remove", odd).returncode == 0
