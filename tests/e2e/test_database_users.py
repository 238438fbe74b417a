"""Roles with schemas of their own, and one that several share: made by the program, used, and removed again."""

import re
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.conftest import address
from tests.e2e.account import ECHO, Account

People = tuple[str, str, str]


def person(above: Path, name: str, dsn: str) -> Account:
    account = Account(above / name, dsn)
    account.home.mkdir()
    return account


@pytest.fixture
def accounts(tmp_path: Path, empty_dsn: str, people: People) -> tuple[Account, Account, Account]:
    """Return an administrator, and two users who have what `db users add` printed in their configurations."""
    admin, made = person(tmp_path, "admin", empty_dsn), list[Account]()
    for name in people[:2]:
        added = admin.run("db", "users", "add", name)
        assert added.returncode == 0, added.stderr
        (password,) = re.findall(r"shown only now: (\S+)", added.stdout)
        assert password not in added.stdout.replace(f"now: {password}", "") and f"postgresql://{name}@" in added.stdout
        (schema,) = re.findall('(?m)^schema = "(.*)"$', added.stdout)
        user = person(tmp_path, name, address(empty_dsn, user=name, password=password))
        user.configure(f'[database]\nschema = "{schema}"\n')
        made.append(user)
    return admin, made[0], made[1]


def test_conversations_of_one_user_are_not_seen_by_another(
    accounts: tuple[Account, Account, Account], people: People
) -> None:
    admin, anna, bela = accounts
    said = anna.run(*ECHO, "-c", "-p", "the lighthouse of anna")
    assert said.returncode == 0, said.stderr
    assert "lighthouse" in anna.run("history", "search", "lighthouse").stdout
    assert "lighthouse" not in bela.run("history", "search", "lighthouse").stdout
    refused = bela.run("--schema", people[0], "agents")
    assert refused.returncode == 2 and refused.stderr.startswith(
        f"ikigai: The database user {people[1]} may not use the schema {people[0]}"
    )
    again = admin.run("db", "users", "add", people[0]).stdout
    assert again.startswith(f"{people[0]} has its schema already.\n") and "password" not in again
    listed = admin.run("db", "users", "list").stdout
    assert all(re.search(rf"(?m)^{name} +{name} ", listed) for name in people[:2])
    assert "holds 1 conversation." in admin.run("db", "users", "remove", people[0]).stderr
    removed = admin.run("db", "users", "remove", people[0], "--give-to", people[1])
    assert removed.stdout == f"The schema {people[0]} belongs to {people[1]} now. The role was dropped.\n"
    assert "lighthouse" in bela.run("--schema", people[0], "history", "search", "lighthouse").stdout
    assert f'There is no user "{people[0]}"' in anna.run("agents").stderr


def test_two_users_continue_one_conversation_in_a_shared_schema(
    accounts: tuple[Account, Account, Account], people: People
) -> None:
    admin, anna, bela = accounts
    added = admin.run("db", "users", "add-shared", people[2], *people[:2])
    assert added.returncode == 0 and f"To use it: ikigai --schema {people[2]}" in added.stdout, added.stderr
    with anna.terminal("--schema", people[2], *ECHO) as program:
        program.ready()
        program.say("a word of anna")
        program.settled()
        program.leave()
    (name,) = re.findall(r"(?m)^  (\S+)", anna.run("--schema", people[2], "agents").stdout)[1:]
    assert f"--schema {people[2]} -r {name}" in " ".join("".join(program.screen.display).split())
    url = address(bela.dsn, options=f"-csearch_path={people[2]}")
    said = bela.run(*ECHO, "-r", name, "-p", "a word of bela", IKIGAI_DATABASE_URL=url)
    assert said.returncode == 0, said.stderr
    assert name in anna.run("--schema", people[2], "history", "search", "bela").stdout
    assert anna.run("agents").stderr.startswith("ikigai: There are no tables of ikigai in the schema"), "hers is unused"
    left = admin.run("db", "users", "remove", people[1], "--from", people[2])
    assert left.returncode == 0 and f"no longer uses the schema {people[2]}" in left.stdout, left.stderr
    assert bela.run("--schema", people[2], "agents").returncode == 2


def test_user_who_is_removed_while_connected_is_told_and_keeps_the_message(
    accounts: tuple[Account, Account, Account], people: People
) -> None:
    admin, anna, _ = accounts
    with anna.terminal(*ECHO, columns=120) as program:
        program.ready()
        program.say("first")
        program.wait_for("● first")
        program.settled()
        assert admin.run("db", "users", "remove", people[0], "--give-to", people[1]).returncode == 0
        program.say("second")
        program.wait_for(f"The user {people[0]} was removed from the database")
        program.say("/exit")
        assert program.ended() == 75 and "Traceback" not in program.text()
        program.assert_restored()
    (kept,) = (anna.home / ".local/state/ikigai").glob("unsaved-*")
    with psycopg.connect(admin.dsn) as server:
        rows = server.execute(f"select content from {people[0]}.messages where kind = 'user'".encode()).fetchall()
    assert rows == [("first",)] and '"second"' in kept.read_text()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("add", "o'neil"), 1, "cannot be the name of a role and its schema"),
        (("add-shared", "team", "nobody"), 1, "There is no role 'nobody'. Make it first: ikigai db users add NAME"),
        (("remove", "nobody"), 1, "There is no schema 'nobody' of a role of that name."),
        (("remove", "nobody", "--from", "team"), 1, "nobody does not use the schema team."),
        (("remove", "a", "--from", "b", "--delete"), 2, "not allowed with argument"),
    ],
)
def test_wrong_name_is_refused_in_one_sentence(account: Account, words: tuple[str, ...], code: int, said: str) -> None:
    result = account.run("db", "users", *words)
    assert result.returncode == code and said in result.stderr and "Traceback" not in result.stderr


def test_schema_option_takes_names_of_schemas_alone(account: Account, dsn: str) -> None:
    for name in ("pg_x", "a b", "x" * 64, 'x"y'):
        result = account.run("--schema", name, "agents")
        assert result.returncode == 2 and "a name of at most 63 letters" in result.stderr
    assert "The schema notes was made" in account.run("--schema", "notes", "db", "migrate").stdout
    assert (
        f"schema notes, as {conninfo_to_dict(dsn)['user']}" in account.run("db", "status", "--schema", "notes").stdout
    )
