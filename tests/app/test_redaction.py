"""Which secrets are ikigai's own: every key it could use, wherever it is, and the passwords of its database."""

from pathlib import Path

import pytest

from ikigai.app.redaction import Redaction
from ikigai.config import Config, api_keys
from ikigai.config.records import Server, Tools
from ikigai.system import paths

LONG = "a-secret-of-some-length-"


def redaction(**tools: str) -> Redaction:
    config = Config(providers={"mine": Server(api_key_env="MY_KEY")}, tools=Tools(**tools))  # type: ignore[arg-type]
    return Redaction(config, lambda: {"database password": f"{LONG}libpq"})


@pytest.fixture
def everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "config_dir", lambda: tmp_path)
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_API_KEY", "MY_KEY", "BRAVE_API_KEY", "PGPASSWORD"):
        monkeypatch.setenv(name, f"{LONG}{name}")
    monkeypatch.setenv("DATABASE_URL", f"postgresql://me:{LONG}%40url@host/db")
    monkeypatch.setenv("IKIGAI_DATABASE_URL", f"host=h user=u password='{LONG}words'")
    api_keys.store(api_keys.default_file(), "anthropic", f"{LONG}login")


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
    api_keys.store(api_keys.default_file(), "groq", f"{LONG}another")
    assert made.own(f"{LONG}another") == "[redacted: groq key]"


def test_address_that_cannot_be_read_is_passed_over(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://me:secret@host:port/password")
    assert "DATABASE_URL" not in redaction().secrets()
