"""Which secrets are ikigai's own: every key it could use, wherever it is, and the passwords of its database."""

import asyncio
import stat
import sys
import time
from pathlib import Path

import psycopg
import pytest

from ikigai.app.tools.redaction_keys import Redaction
from ikigai.app.tools.tool_runtime import StandingApprovals, ToolRuntime
from ikigai.config import Config, login_keys
from ikigai.config.records import ProviderSettings, ToolSettings
from ikigai.core.events.messages import ToolCall
from ikigai.core.secrets.redaction import Redactor
from ikigai.core.state.inputs import Submitted
from ikigai.repl.input.user_command import MAX_OUTPUT_BYTES, run_user_command
from ikigai.store.database import Database
from ikigai.system import paths
from ikigai.tools.base import Effect, EffectKind
from tests.app.house import House, call
from tests.conftest import MIGRATIONS

LONG = "a-secret-of-some-length-"


def redaction(**tools: str) -> Redaction:
    config = Config(providers={"mine": ProviderSettings(api_key_env="MY_KEY")}, tools=ToolSettings(**tools))  # type: ignore[arg-type]
    return Redaction(config, lambda: {"database password": f"{LONG}libpq"})


@pytest.fixture
def everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "config_dir", lambda: tmp_path)
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_API_KEY", "MY_KEY", "BRAVE_API_KEY", "PGPASSWORD"):
        monkeypatch.setenv(name, f"{LONG}{name}")
    monkeypatch.setenv("DATABASE_URL", f"postgresql://me:{LONG}%40url@host/db")
    monkeypatch.setenv("IKIGAI_DATABASE_URL", f"host=h user=u password='{LONG}words'")
    login_keys.store(paths.keys_file(), "anthropic", f"{LONG}login")


def test_every_secret_is_known_by_its_name(everywhere: None):
    found = redaction().secrets()
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_API_KEY", "MY_KEY", "BRAVE_API_KEY", "PGPASSWORD"):
        assert found[name] == f"{LONG}{name}"
    assert found["DATABASE_URL"] == f"{LONG}@url" and found["IKIGAI_DATABASE_URL"] == f"{LONG}words"
    assert found["anthropic key"] == f"{LONG}login" and found["database password"] == f"{LONG}libpq"


def test_text_loses_every_one_of_them(everywhere: None):
    made = redaction()
    text = made.redactor().own(" ".join(made.secrets().values()))
    assert LONG not in text and text.count("[redacted: ") == len(made.secrets())


def test_address_in_any_encoding(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PGPASSWORD", "correct!Horse@Battery/9")
    own = redaction().redactor().own
    for written in ("correct!Horse%40Battery%2F9", "correct%21Horse%40Battery%2f9", "correct!Horse%40Battery/9"):
        assert own(f"u:{written}@h") == "u:[redacted: PGPASSWORD]@h"


def test_off_replaces_nothing_and_warns_of_nothing(everywhere: None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "short")
    assert [told.partition(" ")[0] for told in redaction().warnings()] == ["OPENAI_API_KEY"]
    off = redaction(redact="off")
    text = " ".join(off.secrets().values())
    assert off.own(text) is text and off.redactor().foreign(text) is text and not off.warnings()


def test_key_of_a_new_login_is_replaced(everywhere: None):
    made = redaction()
    assert made.own(f"{LONG}another") == f"{LONG}another"
    login_keys.store(paths.keys_file(), "groq", f"{LONG}another")
    assert made.own(f"{LONG}another") == "[redacted: groq key]"


def test_address_that_cannot_be_read_is_passed_over(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://me:secret@host:port/password")
    assert "DATABASE_URL" not in redaction().secrets()


async def test_password_of_a_file_is_known_also_while_the_connection_is_lost(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "pgpass"
    file.write_text(f"*:*:*:*:{LONG}pgpass\n")
    file.chmod(stat.S_IRUSR | stat.S_IWUSR)
    monkeypatch.setenv("PGPASSFILE", str(file))
    database = await Database.open(dsn, MIGRATIONS)
    try:
        made = Redaction(Config(), lambda: database.passwords)
        assert made.own(f"{LONG}pgpass") == "[redacted: database password]"
        with psycopg.connect(dsn, autocommit=True) as other:
            other.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()"
                " and datname = current_database()"
            )
        await asyncio.sleep(0.1)
        assert made.own(f"{LONG}pgpass") == "[redacted: database password]"
    finally:
        await database.close()


async def test_looking_for_passwords_takes_no_answer_that_a_statement_waits_for(dsn: str):
    """All agents of a program share one connection; the statement would wait until its deadline."""
    database = await Database.open(dsn, MIGRATIONS)

    async def asks() -> None:
        async with database._session.use() as cursor:
            await cursor.execute("select pg_sleep(0.2)")

    asking = asyncio.create_task(asks())
    await asyncio.sleep(0.1)
    time.sleep(0.3)  # noqa: ASYNC251  (its answer has come, and nobody has read it)
    assert database.passwords == {}
    async with asyncio.timeout(60):
        await asking
    await database.close()


def test_standing_approval_is_kept_without_keys(everywhere: None, tmp_path: Path):
    kept = StandingApprovals(tmp_path / "standing.json", redaction().own)
    secret = f"{LONG}OPENAI_API_KEY"
    kept.approve("0" * 64, ToolCall("1", "shell", "{}"), Effect(EffectKind.RUN, f"curl -H {secret} x", "/"))
    assert list(kept.known()) == ["0" * 64]
    assert secret not in (tmp_path / "standing.json").read_text()


@pytest.fixture
def openai_key(monkeypatch: pytest.MonkeyPatch) -> str:
    """Set a key, before the program that has it starts."""
    monkeypatch.setenv("OPENAI_API_KEY", f"{LONG}OPENAI_API_KEY")
    return f"{LONG}OPENAI_API_KEY"


async def test_agents_are_not_called_by_a_key(openai_key: str, house: House):
    secret = openai_key
    boss = await house.member("boss", [call("fork", prompt="?", name=secret, model="scripted/echo")], "Started.")
    boss.agent_loop.put_input(Submitted("Do it."))
    await house.rested()
    assert secret not in [agent.name for agent in await house.database.agents.all(unlisted=True)]
    assert secret not in " ".join(await house.results("boss"))


async def test_output_of_the_users_command_is_cut_between_words(tmp_path: Path):
    tool_runtime = ToolRuntime(Config(), tmp_path)
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    for before in (
        *range(MAX_OUTPUT_BYTES // 2 - 60, MAX_OUTPUT_BYTES // 2 + 5, 13),
        *range(MAX_OUTPUT_BYTES - 60, MAX_OUTPUT_BYTES, 13),
    ):
        program = f"import sys; sys.stdout.write('x ' * {before // 2} + '{token} ' + 'y ' * {MAX_OUTPUT_BYTES})"
        (tmp_path / "long.py").write_text(program)
        output = await run_user_command(tool_runtime, f"{sys.executable} long.py", lambda text: None)
        left = Redactor({}, formats=True).foreign(output)
        assert token[:12] not in left and len(output.encode()) <= MAX_OUTPUT_BYTES
