"""Tests of writing one setting to the user's file: comments stay, wrong values and changed files are refused."""

import re
import stat
from pathlib import Path

import pytest

from ikigai.config import Config, load, settings_file, toml_file
from ikigai.core.errors import ConfigError

COMMENTED = '# mine\nmodel = "openai/x"  # why\n\n[terminal]\n# looks\ntheme = "dark"\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "config.toml"


def put(file: Path, key: str, value: str) -> Config:
    return settings_file.set_value(file, settings_file.find_key(Config(), key), value)


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("model", "openai/y", "openai/y"),
        ("system_prompt", 'Say "yes"\nalways.', 'Say "yes"\nalways.'),
        ("system_prompt", '"quoted"', "quoted"),
        ("context.sliding_context_tokens", "50000", 50_000),
        ("prune_fraction", "0.25", 0.25),
        ("keep_first_turn", "true", True),
        ("terminal.status", "model, cost", ["model", "cost"]),
        ("terminal.status", '["model"]', ["model"]),
        ("tools.allow", '["npm test"]', ["npm test"]),
        ("keys.stash", "F2", ("f2",)),
        ("providers.wire.base_url", "http://localhost:1/v1", "http://localhost:1/v1"),
        ('models."a/b.c".input_price', "-1", -1),
        ("profiles.docs.model", "openai/z", "openai/z"),
        ("themes.mine.user", "bold red", "bold red"),
    ],
)
def test_values_of_each_type_are_written_and_read_back(file: Path, key: str, text: str, value: object):
    put(file, key, text)
    path = settings_file.find_key(Config(), key)
    loaded = load(file, {}, {}).settings[path]
    assert (loaded.value, loaded.kind) == (value, "configuration")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_comments_mode_and_link_are_kept(file: Path, tmp_path: Path):
    (target := tmp_path / "dotfiles.toml").write_text(COMMENTED)
    target.chmod(0o640)
    file.parent.mkdir()
    file.symlink_to(target)
    put(file, "terminal.theme", "light")
    assert target.read_text() == COMMENTED.replace("dark", "light")
    assert file.is_symlink() and stat.S_IMODE(target.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) and not list(tmp_path.glob(".dotfiles*"))


@pytest.mark.parametrize(
    ("key", "left"),
    [
        ("terminal.theme", COMMENTED.replace('theme = "dark"\n', "")),
        ("model", COMMENTED.replace('model = "openai/x"  # why\n', "")),
        ("terminal.color", COMMENTED),
        ("context.prune_fraction", COMMENTED),
    ],
)
def test_default_removes_a_key_and_keeps_the_rest(file: Path, key: str, left: str):
    file.parent.mkdir()
    file.write_text(COMMENTED)
    written = put(file, key, "default")
    path = settings_file.find_key(Config(), key)
    assert file.read_text() == left and written.kind(path) == "default"
    told = settings_file.describe_written(written, path, file)
    assert told.startswith(f"{key} is not set in {file}. Default: ")


def test_default_removes_a_key_of_an_action(file: Path):
    put(file, "keys.stash", "F2")
    put(file, "keys.stash", "default")
    assert load(file, {}, {}).key_changes == {}


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("terminal.color", "pink", 'terminal.color cannot be \'pink\'. Allowed: "auto", "never" or "always".'),
        ("terminal.them", "dark", "Did you mean terminal.theme?"),
        ("terminal", "dark", "there is no key terminal."),
        ("providers.*.base_url", "http://h", "there is no key"),
        ("a b", "x", "'a b' is not a key."),
        ("x" * 10_000, "x", "is not a key."),
        ("context.sliding_context_tokens", "9" * 10_000, "context.sliding_context_tokens cannot be '999"),
        ("tools.approval", "yolo", "tools.approval cannot be yolo."),
        ("openai.api_key", "sk-1", "does not belong in a file."),
        ("database.url", "postgresql://me:secret@h/d", "with a password"),
        ("database.url", "host=h password=secret", "with a password"),
        ("keys.stash", "ctrl-s", "ctrl-s is a key of steer"),
        ("keys.stash", "q", "it types text"),
        ("terminal.theme", "nope", "there is no theme 'nope'."),
    ],
)
def test_what_is_not_allowed_is_refused_and_nothing_is_written(file: Path, key: str, value: str, words: str):
    with pytest.raises(ConfigError) as refused:
        put(file, key, value)
    assert words in str(refused.value) and len(str(refused.value)) < 500
    assert "secret" not in str(refused.value) and "sk-1" not in str(refused.value)
    assert not file.exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('model = "openai/x\n', ":1 is not valid TOML"),
        ("zzz = 1\n", ":1: there is no key zzz."),
        (b"\xff", "not UTF-8"),
    ],
)
def test_file_with_a_mistake_is_left_as_it_is(file: Path, content: str | bytes, words: str):
    file.parent.mkdir()
    file.write_bytes(before := content.encode() if isinstance(content, str) else content)
    with pytest.raises(ConfigError, match=words):
        put(file, "terminal.theme", "light")
    assert file.read_bytes() == before


def test_mistake_is_corrected_by_setting_its_key(file: Path):
    file.parent.mkdir()
    file.write_text('[terminal]\ncolor = "pink"\n')
    put(file, "terminal.color", "never")
    assert file.read_text() == '[terminal]\ncolor = "never"\n'


def test_read_only_file_and_dangling_link_are_refused(file: Path, tmp_path: Path):
    file.parent.mkdir()
    file.write_text(COMMENTED)
    file.chmod(0o400)
    with pytest.raises(ConfigError, match=r"is read-only\. Run: chmod u\+w "):
        put(file, "terminal.theme", "light")
    assert file.read_text() == COMMENTED
    file.unlink()
    file.symlink_to(tmp_path / "gone")
    with pytest.raises(ConfigError, match="is a link to a file that does not exist"):
        put(file, "terminal.theme", "light")


def test_error_of_a_file_that_was_wrong_names_the_line_in_that_file(file: Path):
    file.parent.mkdir()
    file.write_text('[terminal]\ntheme = "dark"\n\n[context]\nbudget = 5\n')
    with pytest.raises(ConfigError, match=r"config.toml:5: there is no key context.budget"):
        put(file, "terminal.wrap", "words")


def test_file_changed_meanwhile_is_not_overwritten(file: Path, monkeypatch: pytest.MonkeyPatch):
    file.parent.mkdir()
    file.write_text(COMMENTED)
    before = file.read_bytes()
    file.write_text(other := COMMENTED + "# theirs\n")
    with pytest.raises(ConfigError, match="was changed by another program meanwhile"):
        settings_file.replace_file(file, before, b"")
    assert file.read_text() == other and [each.name for each in file.parent.iterdir()] == ["config.toml"]


def test_key_is_described_with_its_origin_and_what_is_allowed(file: Path):
    put(file, "theme", "light")
    config = load(file, {"IKIGAI_DATABASE_URL": "postgresql://me:secret@h/d"}, {})
    theme = settings_file.describe_key(config, ("terminal", "theme")).text
    assert theme.startswith(f'terminal.theme = "light"  (configuration {file}:2)\n') and 'Default: "auto"' in theme
    assert "Allowed: " in theme
    assert "***" in settings_file.describe_key(config, ("database", "url")).text
    whole = settings_file.list_settings(config)
    assert whole.startswith(f"File: {file}\n\nSet:\n  database.url = ") and "secret" not in whole
    tables = re.findall(r"^\[(.*)\]  ", whole, re.MULTILINE)
    assert len(set(tables)) == len(tables) and "providers.anthropic" in tables
    assert whole.index("terminal.theme") < whole.index("[context]  sliding_context_tokens, ")
    assert len(whole.split("\n")) < 30, "a screen or two, with what wraps"
    table = settings_file.list_table(config, "terminal").split("\n")
    assert table[0] == "[terminal]" and f'  theme = "light"  (configuration {file}:2)' in table
    assert '  color = "auto"' in table and settings_file.list_table(config, "terminals") == ""
    assert settings_file.allowed_values(("terminal", "color")) == ["auto", "never", "always", "default"]
    assert settings_file.allowed_values(("tools", "enabled")) == ["true", "false", "default"]
    assert settings_file.allowed_values(("database", "url")) == ["default"]
    assert toml_file.read(file, True)[0].path == ("terminal", "theme")
