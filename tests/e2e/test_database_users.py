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


def test_share_with_a_role_that_nobody_logs_in_as_names_its_members(
    team: tuple[str, Account, Account], people: tuple[str, str]
) -> None:
    """A share counts for the role that logs in, so the members would get nothing by it."""
    group, anna, bela = team
    (docs,) = anna.agents()
    refused = anna.run("agents", "share", docs, "with", group, "write")
    assert refused.returncode == 2 and f"{group} is a role that no user logs in as. Share with" in refused.stderr
    (line,) = re.findall(r"`ikigai (.*?)`", refused.stderr)
    assert line == f"agents share {docs} with {people[1]} write", "of the members one owns it"
    assert "No agents are shared." in anna.run("agents", "share").stdout
    assert bela.run("agents", "show", docs).returncode == 2
    shared = anna.run(*line.split())
    assert f"{people[1]} may read and continue {docs} now." in shared.stdout, shared.stderr
    assert bela.run("agents", "show", docs).returncode == 0
    said = bela.run(*ECHO, "-p", "-r", docs, "goes on")
    assert said.returncode == 0, said.stderr


def test_share_with_a_role_says_who_gets_nothing_by_it(
    team: tuple[str, Account, Account], people: tuple[str, str], dsn: str
) -> None:
    """The role logs in, and has members who log in as themselves. It gets rights here later."""
    group, anna, bela = team
    (docs,) = anna.agents()
    with psycopg.connect(dsn, autocommit=True) as server:
        server.execute(sql.SQL("alter role {} login").format(sql.Identifier(group)))
    shared = anna.run("agents", "share", docs, "with", group)
    assert shared.returncode == 0, shared.stderr
    one, rights, members = shared.stdout.splitlines()
    assert one.startswith(f"{group} may read {docs} once {group} has the rights of a user.")
    assert rights == f"To give these rights: ikigai db users add {group}"
    assert members.endswith(f"To share with one: ikigai agents share {docs} with {people[1]} read")
    assert bela.run("agents", "show", docs).returncode == 2
    admin = Account(anna.home.parent / "admin", dsn)
    assert admin.run("db", "users", "add", group).returncode == 0
    try:
        again = anna.run("agents", "share", docs, "with", group).stdout
        assert f"{group} may read {docs} now." in again and "rights" not in again
        leader = Account(bela.home, address(dsn, user=group))
        assert leader.run("agents", "show", docs).returncode == 0
        assert anna.run("agents", "share", docs, "with", group, "none").returncode == 0
        assert leader.run("agents", "show", docs).returncode == 2
    finally:
        assert admin.run("db", "users", "remove", group).returncode == 0


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


def test_approval_mode_of_a_shared_agent_lets_nothing_run_at_another_user(
    team: tuple[str, Account, Account], people: tuple[str, str], dsn: str
) -> None:
    """Each of both stores that the mode is `yolo`, by another program than ikigai. Flags hold for a run."""
    _, anna, bela = team
    (docs,) = anna.agents()
    assert anna.run("agents", "share", docs, "with", people[1], "write").returncode == 0
    tools = {"IKIGAI_TOOLS_ENABLED": "true"}

    def runs(account: Account, *flags: str) -> bool:
        """Return True if a command of the model runs in a turn of print mode."""
        ran = account.home / "ran"
        model = account.script([{"do": "call", "name": "shell", "arguments": {"command": f"touch {ran}"}}], "Done.")
        account.run(*model, "-p", *flags, "go", **tools)
        found = ran.exists()
        ran.unlink(missing_ok=True)
        return found

    def choose(account: Account, name: str = docs) -> None:
        with psycopg.connect(account.dsn, options="-csearch_path=ikigai") as other:
            other.execute(
                "insert into messages (event_id, agent_id, seq, kind, data)"
                " select gen_random_uuid(), agent_id, max(seq) + 1, 'settings',"
                """ '{"values": {"approval": "yolo"}, "origins": {"approval": "agent"}}'"""
                " from messages where agent_id = (select id from agents where name = %s) group by agent_id",
                (name,),
            )

    assert not runs(anna, "-r", docs) and runs(bela, "-r", docs, "--yolo")
    choose(bela)
    assert not runs(anna, "-r", docs) and not runs(bela, "-r", docs)
    choose(anna)
    assert not runs(anna, "-r", docs) and not runs(bela, "-r", docs) and runs(bela, "-r", docs, "--yolo")
    assert bela.run("-p", "-r", docs, "/fork --name mine").returncode == 0
    assert not runs(bela, "-r", "mine")
    choose(bela, "mine")
    assert not runs(bela, "-r", "mine"), "no program of bela's has chosen that"
