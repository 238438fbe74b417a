"""Configuration has layers in an order, refuses with these words, and has an example that cannot drift."""

import errno
import json
import os
import re
import tomllib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikigai import config
from ikigai.config import Config, diagnostics, layers, records, settings_file, toml_file
from ikigai.config import key_table as table
from ikigai.config.project.project_settings import CAP_SCOPES
from ikigai.core.commands import arguments
from ikigai.core.commands.key_actions import KEY_ACTIONS
from ikigai.core.errors import ConfigError, ConfigErrors
from ikigai.core.tools.approval_mode import ApprovalMode
from ikigai.core.vendors import VENDORS
from ikigai.system import paths

EXAMPLE = paths.shipped_path("config.example.toml")


@pytest.fixture
def load(tmp_path):
    """Load this file's text (bytes are written as they are), these variables, these flags."""
    file = tmp_path / "config.toml"

    def load(text="", environ=None, flags=None):
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return config.load(file, environ or {}, flags or {})

    load.file = file
    return load


def refusal(load, *given, **more):
    """Return the error that this configuration is refused with, without its file's folder."""
    with pytest.raises(ConfigError) as caught:
        load(*given, **more)
    assert caught.value.exit_code == 2
    for error in caught.value.errors if isinstance(caught.value, ConfigErrors) else [caught.value]:
        assert error.what.endswith(".") and error.remedy
    return str(caught.value).replace(f"{load.file.parent}{os.sep}", "")


# ── The table and the example ──


def test_every_key_says_what_it_is_and_what_is_allowed_and_allows_its_default():
    about = settings_file.read_help()
    assert list(about) == list(table.KEY_SPECS)
    for path, key in table.KEY_SPECS.items():
        assert about[path].endswith("."), path
        assert key.allowed, path
        assert msgspec.convert(key.default, key.type) == key.default


def uncommented(text):
    """Return the example with every line that begins with # and no blank behind it put into force."""
    return re.sub(r"^#(?=\S)", "", text, flags=re.MULTILINE)


def test_example_as_it_is_changes_nothing(load):
    shipped, nothing = load(EXAMPLE.read_text()), load("")
    assert config.describe(shipped) == config.describe(nothing)


def test_example_uncommented_names_every_key_with_its_default(load):
    whole = load(uncommented(EXAMPLE.read_text()))
    written = {table.path_pattern(path): value for path, value, *_ in toml_file.read(load.file, True)}
    assert list(written) == list(table.KEY_SPECS)
    written = {path: msgspec.convert(value, table.KEY_SPECS[path].type) for path, value in written.items()}
    del written["providers", "*", "base_url"]  # a provider without one is refused
    assert written == {path: table.KEY_SPECS[path].default for path in written}
    assert whole.providers["ollama"].base_url == "http://localhost:11434/v1"
    for name in Config.__struct_fields__:
        if name not in ("providers", "models", "mcp_servers", "profiles", "themes", "settings"):
            assert getattr(whole, name) == getattr(load(""), name), name


def test_example_describes_keys_and_approval_modes_as_the_program_does():
    about = settings_file.read_help()
    for action in KEY_ACTIONS:
        assert about["keys", action.name] == f"{action.help[0].upper()}{action.help[1:]}."
    for mode in ApprovalMode.AUTO.up_to():
        assert f'"{mode}": {mode.meaning}' in about["tools", "approval"]


REMOVED = {
    "agents": "depth at_once per_tree",
    "context": "auto_recall_tokens",
    "database": "user_name",
    "mcp_servers.x": "approval directory grant",
    "providers.acme": "first_seconds idle_seconds max_output",
    "terminal": "links notify_after prompt_marks suggestions update_index",
    "tools": "max_stored_result mcp_tools_tokens",
    "themes.mine": "prompt assistant call bold found selected thought added_word removed_word hunk heading link quote "
    "border code code_keyword code_name code_definition code_string code_number code_comment",
}


def test_each_removed_key_is_refused_with_what_to_do(load):
    removed = [(where, key) for where, keys in REMOVED.items() for key in keys.split()]
    assert len(removed) == 39
    for where, key in (*removed, ("profiles.fast", "auto_recall_tokens")):
        with pytest.raises(ConfigError) as refused:
            load(f"[{where}]\n{key} = 1\n")
        assert refused.value.what.endswith(f"config.toml:2: there is no key {where}.{key} any more.")
        assert re.match(r"(Remove the line: |Write |Set )", refused.value.remedy), refused.value.remedy
    with pytest.raises(ConfigError, match=r"no key agents any more\. Remove the table"):
        load("[agents]\n")


def test_removed_keys_are_no_keys():
    assert not set(diagnostics.REMOVED_KEYS) & set(table.KEY_SPECS) and len(table.KEY_SPECS) <= 123


# ── The layers ──


def test_nothing_set_is_the_defaults(load):
    nothing = load("")
    assert nothing.context.sliding_context_tokens == 100_000
    assert nothing.start_with == "last"
    assert nothing.database.dsn is None
    assert {origin for _, _, origin in config.describe(nothing)} == {"default"}


def test_flags_go_before_variables_before_the_file(load):
    text, environ = 'model = "openai/file"\n', {"IKIGAI_MODEL": "openai/variable"}
    file, variable = load(text), load(text, environ)
    flag = load(text, environ, {"model": "openai/flag", "system_prompt": None})
    assert [c.model for c in (file, variable, flag)] == ["openai/file", "openai/variable", "openai/flag"]
    assert [c.origin(("model",)) for c in (file, variable, flag)] == [
        f"configuration {load.file}:1",
        "environment IKIGAI_MODEL",
        "flag --model",
    ]


@pytest.mark.parametrize(
    "path, variable",
    [
        (("model",), "IKIGAI_MODEL"),
        (("context", "sliding_context_tokens"), "IKIGAI_SLIDING_CONTEXT_TOKENS"),
        (("context", "token_counter"), "IKIGAI_TOKEN_COUNTER"),
        (("context", "prune_fraction"), "IKIGAI_PRUNE_FRACTION"),
        (("context", "tool_result_keep_last"), "IKIGAI_TOOL_RESULT_KEEP_LAST"),
        (("context", "condense_at_percent"), "IKIGAI_CONDENSE_AT_PERCENT"),
        (("terminal", "color"), "IKIGAI_TERMINAL_COLOR"),
        (("providers", "local", "model_file"), "IKIGAI_PROVIDERS_LOCAL_MODEL_FILE"),
        (("providers", "lm-studio", "base_url"), "IKIGAI_PROVIDERS_LM_STUDIO_BASE_URL"),
    ],
)
def test_names_of_variables(path, variable):
    assert table.variables_of(path) == (variable,)


@pytest.mark.parametrize("name", ["*", "", "A B", "1A", "A*B", "A=b"])
def test_tools_env_takes_names_and_starts_of_names_only(load, name: str):
    assert load('[tools]\nenv = ["KUBECONFIG", "AWS_*", "a_b"]').tools.env == ("KUBECONFIG", "AWS_*", "a_b")
    with pytest.raises(ConfigError, match="Allowed: a list of variables' names"):
        load(f'[tools]\nenv = ["{name}"]')


def test_every_key_but_those_of_models_can_be_set_by_its_variable(load):
    samples = {
        "profile": "default",
        "url": "host=db",
        "durability": "replicated",
        "replica_url": "host=replica",
        "base_url": "http://h/v1",
        "api": "responses",
        "token_counter": "provider",
        "prune_fraction": "0.25",
        "cache_ttl": "1h",
        **{f"{scope}_usd": "2.5" for scope in CAP_SCOPES},
        "keep_first_turn": "true",
        "vendor_search": "true",
        "tool_result_truncation": "both",
        "condense": "auto",
        "condense_model": "openai/x",
        "condense_prompt_file": "~/prompt.txt",
        "summarise_on_clear": "true",
        "auto_recall": "on",
        "default_system_prompt": "false",
        "api_key_env": "MY_KEY",
        "model_file": "~/m.gguf",
        "redact": "own",
        "start_with": "new",
        "favorite_models": "openai/gpt-5",
        "fallback": "openai/gpt-5",
        "color": "never",
        "theme": "light",
        "status": "cost",
        "screen_reader": "true",
        "thinking": "full",
        "wrap": "terminal",
        "title": "false",
        "notify": "bell",
        "editing": "vi",
        "find_servers": "false",
        "update_notice": "true",
        "enabled": "false",
        "approval": "auto",
        "env": "AWS_*",
        "sandbox": "bwrap",
        "sandbox_network": "true",
        "model": "openai/x",
        "system_prompt": "42",
        "schema": "own",
        "headers": "{}",
    }
    for path in table.all_paths([], []):
        text = "f12" if path[0] == "keys" else samples.get(path[-1], "77")
        address = {f"IKIGAI_PROVIDERS_{name.upper()}_BASE_URL": "http://h/v1" for name in VENDORS}
        loaded = load("", {**address, table.variables_of(path)[0]: text})
        value = loaded.settings[path].value
        if isinstance(table.KEY_SPECS[table.path_pattern(path)].default, tuple):
            several = {
                "status": "cost, agent",
                "env": "A_*, B",
                "keys": "f11, f12",
                "favorite_models": "openai/x, a/b:low",
                "fallback": "openai/x, a/b:low",
                "private_hosts": "localhost, wiki.lan",
                "skills_off": "pdf, docx",
            }
            text = several.get(path[-1]) or several.get(path[0], "a b, c")
            assert list(load("", {table.variables_of(path)[0]: text}).settings[path].value) == text.split(", ")
            continue
        default = msgspec.to_builtins(table.KEY_SPECS[table.path_pattern(path)].default)
        assert str(value).lower() == text.lower() and type(value) is type(default)
        assert loaded.origin(path) == f"environment {table.variables_of(path)[0]}"


def test_variable_reaches_a_provider_that_the_file_names(load):
    text = '[providers.lm-studio]\nbase_url = "http://file/v1"\n'
    assert load(text, {"IKIGAI_PROVIDERS_LM_STUDIO_CONTEXT": "4096"}).providers["lm-studio"].context == 4096
    empty = load("[providers.ollama]\n", {"IKIGAI_PROVIDERS_OLLAMA_CONTEXT": "4096"})
    assert empty.providers["ollama"].context == 4096
    assert "lm-studio" not in load("", {"IKIGAI_PROVIDERS_LM_STUDIO_CONTEXT": "4096"}).providers


@pytest.mark.parametrize(
    "text, tokens",
    [("0", 0), ("1", 1), ("200000", 200_000), ("1000000000", 10**9), ("200k", 200_000), ("1.5M", 1_500_000)],
)
def test_sliding_variable(load, text, tokens):
    assert load("", {"IKIGAI_SLIDING_CONTEXT_TOKENS": text}).context.sliding_context_tokens == tokens


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "-1",
        "+1",
        "1.5",
        "1.0001k",
        "100 k",
        "100kb",
        "1_000",
        " 7",
        "7\n",
        "٣",
        "off",
        "1e3",
        "0x10",
        "1" * 500,
        "\udcff",
    ],
)
def test_sliding_variable_refuses_anything_else(load, text):
    said = refusal(load, "", {"IKIGAI_SLIDING_CONTEXT_TOKENS": text})
    assert said.startswith("IKIGAI_SLIDING_CONTEXT_TOKENS cannot be '")
    assert said.endswith("Allowed: a number of tokens, 0 to 1000000000, also as '200k'.")
    assert "\n" not in said and len(said) < 250
    said.encode()


@pytest.mark.parametrize(
    "key, text, value",
    [
        ("prune_fraction", "0", 0.0),
        ("prune_fraction", "0.5", 0.5),
        ("keep_first_turn", "false", False),
        ("max_history_tokens", "0", 0),
        ("max_tool_result_tokens", "1", 1),
        ("tool_result_truncation", "tail", "tail"),
        ("tool_result_keep_first", "0", 0),
        ("tool_result_keep_last", "1000000", 1_000_000),
        ("condense", "manual", "manual"),
        ("condense_at_percent", "5", 5),
        ("condense_to_percent", "100", 100),
        ("summarise_on_clear", "true", True),
        ("auto_recall", "on", "on"),
        ("default_system_prompt", "false", False),
    ],
)
def test_window_by_variables(load, key, text, value):
    loaded = load(f"[context]\n{key} = {json.dumps(value)}", {f"IKIGAI_{key.upper()}": text})
    assert getattr(loaded.context, key) == value and loaded.kind(("context", key)) == "environment"
    assert getattr(load(load.file.read_text()).context, key) == value


@pytest.mark.parametrize(
    "key, texts",
    [
        ("prune_fraction", ["", "0.51", "-0.1", "nan", "inf", "1e-1", ".5", "0,25", "25%", " 0.1", "1" * 400]),
        ("keep_first_turn", ["", "2", "y", "maybe", "truth"]),
        ("max_history_tokens", ["", "-1", "1.5", "20g", "1000000001", "1001M"]),
        ("max_tool_result_tokens", ["0", "-8", "8000.5", "0k"]),
        ("tool_result_truncation", ["middle", "HEAD"]),
        ("tool_result_keep_first", ["-1", "1000001", "two"]),
        ("tool_result_keep_last", ["-1", "", "5.0"]),
        ("condense", ["on", "true", "AUTO"]),
        ("condense_at_percent", ["", "0", "4", "101", "-1", "many", "75%", "7.5"]),
        ("condense_to_percent", ["0", "4", "101", "many"]),
        ("condense_model", ["gpt-5", "/x", "x/"]),
        ("condense_prompt_file", ["prompt.txt", "../prompt.txt"]),
        ("summarise_on_clear", ["", "10", "never"]),
        ("auto_recall", ["true", "always"]),
    ],
)
def test_what_the_window_cannot_be_set_to(load, key, texts):
    allowed = f"Allowed: {table.KEY_SPECS['context', key].allowed}."
    for text in texts:
        if text or key != "tool_result_truncation":
            said = refusal(load, "", {f"IKIGAI_{key.upper()}": text})
            assert said.startswith(f"IKIGAI_{key.upper()} cannot be ") and said.endswith(allowed) and len(said) < 250


@pytest.mark.parametrize(
    "text, is_on",
    [*((text, True) for text in ("true", "1", "yes", "on", "True")), *((text, False) for text in ("false", "0", "No"))],
)
def test_switches_in_variables(load, text, is_on):
    assert load("", {"IKIGAI_KEEP_FIRST_TURN": text}).context.keep_first_turn is is_on


@pytest.mark.parametrize(
    "line",
    ["prune_fraction = 0.6", "prune_fraction = nan", "prune_fraction = '0.1'", "prune_fraction = true",
     "keep_first_turn = 1", "max_history_tokens = -1", "max_history_tokens = 1.5", "max_tool_result_tokens = 0",
     "tool_result_truncation = 'middle'", "tool_result_keep_first = -1", "tool_result_keep_last = 2.0",
     "condense = 'on'", "condense = true", "condense_at_percent = 0", "condense_at_percent = 4",
     "condense_at_percent = 101", "condense_at_percent = 'many'", "condense_to_percent = 4", "condense_model = 'x'",
     "condense_prompt_file = 'prompt.txt'", "summarise_on_clear = 'yes'"],
)  # fmt: skip
def test_what_the_file_cannot_set_the_window_to(load, line):
    key = line.split()[0]
    said = refusal(load, f"[context]\n{line}\n")
    assert said.startswith(f"config.toml:2: context.{key} cannot be ")
    assert said.endswith(f"Allowed: {table.KEY_SPECS['context', key].allowed}.")


def test_defaults_of_the_window(load):
    assert load("").context == records.ContextSettings(
        100_000, "bytes", 0.25, False, 0, 8000, "head", 2, 5, "off", 75, 40, "", "", False
    )
    assert load("[context]\nprune_fraction = 0").context.prune_fraction == 0


def test_empty_variable_of_text_is_unset(load):
    loaded = load('model = "openai/x"', {"IKIGAI_MODEL": "", "DATABASE_URL": "", "OPENAI_BASE_URL": ""})
    assert loaded.model == "openai/x" and loaded.database.dsn is None and not loaded.providers


def test_empty_flag_is_not(load):
    environ = {"IKIGAI_SYSTEM_PROMPT": "be brief", "DATABASE_URL": "postgresql://h/d"}
    loaded = load("", {**environ, "IKIGAI_DATABASE_URL": "postgresql:///x"}, {"system_prompt": "", "database.url": ""})
    assert loaded.system_prompt == "" and loaded.database.dsn is None


# ── The database ──


RANKS = [
    ({"IKIGAI_DATABASE_URL": "postgresql:///one"}, "", "postgresql:///one", "environment IKIGAI_DATABASE_URL"),
    ({}, '[database]\nurl = "host=h dbname=three"', "host=h dbname=three", "configuration {}:2"),
    ({"DATABASE_URL": "postgres://h/two", "PGHOST": "four"}, "", None, "default"),
]


@pytest.mark.parametrize("first", range(len(RANKS)))
def test_who_names_the_database_first(load, first):
    """Sources further down the list are there too, and yield."""
    environ = {name: value for rank in RANKS[first:] for name, value in rank[0].items()}
    loaded = load("".join(rank[1] for rank in RANKS[first:]), environ)
    assert loaded.database.dsn == RANKS[first][2]
    assert loaded.origin(table.DATABASE_URL) == RANKS[first][3].format(load.file)


@pytest.mark.parametrize("variable", ["DATABASE_URL", "PGSERVICE", "PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE"])
def test_variables_of_other_programs_are_taken_only_by_name(load, variable):
    """Where one is set and the default is used, one sentence says how to take it; where anything was chosen, none."""
    environ = {variable: "postgresql://h/app"}
    loaded = load('[database]\nurl = ""', environ)
    assert loaded.database.dsn is None
    said = config.unused_address(loaded, environ)
    assert said.startswith(f"{variable} is set, but not used: url = ") and said.count("\n") == 0
    chosen = load(f"[database]\nurl = {said.split()[8]}", environ)
    assert chosen.database.dsn == ("postgresql://h/app" if variable == "DATABASE_URL" else "")
    assert config.unused_address(chosen, environ) == ""
    assert config.unused_address(load('[database]\nurl = "embedded"', environ), environ) == ""
    assert config.unused_address(load("", {}), {variable: "", "PGUSER": "me", "PGPASSWORD": "x"}) == ""


def test_variable_that_is_not_set_is_named(load):
    for environ in ({}, {"APP_URL": ""}):
        said = refusal(load, '[database]\nurl = "env:APP_URL"', environ)
        assert "config.toml:2: database.url reads the address from APP_URL, which is not set. Set APP_URL" in said
    assert "Allowed" in refusal(load, '[database]\nurl = "env:A B"', {})


def test_names_of_schemas(load):
    for name in ("ikigai", "public", "_1", "Own-Schema", "x" * 63):
        assert load("", {"IKIGAI_DATABASE_SCHEMA": name}).database.schema == name
    for name in ("", "pg_x", "pg_catalog", "information_schema", "1a", "a b", 'a"; drop', "$user", "x" * 64, "ő"):
        assert "Allowed: a name of at most 63" in refusal(load, f"[database]\nschema = '{name}'", {}), name


def test_embedded_and_libpq_by_name(load):
    environ = {"DATABASE_URL": "postgresql://other/app"}
    assert load("", {**environ, "IKIGAI_DATABASE_URL": "embedded"}).database.dsn is None
    assert load("", environ, {"database.url": "libpq"}).database.dsn == ""


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://",
        "postgres://me:secret@h1:5432,h2/db?target_session_attrs=read-write",
        "postgresql:///ikigai?host=/run/postgresql",
        "host=h password='a b'",
        " service = work",
    ],
)
def test_addresses_of_postgresql(load, dsn):
    assert load("", {"IKIGAI_DATABASE_URL": dsn}).database.dsn == dsn
    assert load('[database]\nurl = "env:APP"', {"APP": dsn}).database.dsn == dsn


@pytest.mark.parametrize(
    "dsn", ["mysql://me:hush@db/app", "sqlite:///app.db", "postgresql+asyncpg://me:hush@h/db", "jdbc:postgresql://h/d",
            "ikigai", "postgresql://h/\0", "postgresql://h/\udcff", "Embedded"]
)  # fmt: skip
def test_address_of_another_kind_is_named(load, dsn):
    for place, text, environ in (
        ("IKIGAI_DATABASE_URL", "", {"IKIGAI_DATABASE_URL": dsn}),
        ("config.toml:2 (APP): database.url", '[database]\nurl = "env:APP"', {"APP": dsn}),
    ):
        said = refusal(load, text, environ)
        assert f"{place} cannot be {config.mask_passwords(dsn)!r}. Allowed: a PostgreSQL address" in said
        assert "hush" not in said


# ── Providers, keys, models ──


def test_keys_are_known_by_the_name_of_their_variable_only(load):
    environ = {"OPENAI_API_KEY": "sk-canary", "GOOGLE_API_KEY": "AIcanary", "GEMINI_API_KEY": "", "GROQ": "canary",
               "ANTHROPIC_API_KEY": " ", "OPENAI_BASE_URL": "http://me:canary@h/v1",
               "IKIGAI_DATABASE_URL": "env:DATABASE_URL",
               "DATABASE_URL": "postgresql://me:canary@h/db"}  # fmt: skip
    text = '[providers.groq]\nbase_url = "https://g/v1"\napi_key_env = "GROQ"\n'
    loaded = load(text, environ)
    assert loaded.keys == {
        "openai": "environment OPENAI_API_KEY",
        "google": "environment GOOGLE_API_KEY",
        "groq": "environment GROQ",
    }
    rows = config.describe(loaded)
    assert ("API key of openai", "set", "environment OPENAI_API_KEY") in rows
    assert ("database.url", '"postgresql://me:***@h/db"', "environment IKIGAI_DATABASE_URL (DATABASE_URL)") in rows
    assert "canary" not in f"{rows} {loaded!r} {loaded.settings} {loaded.providers} {loaded.database}"
    assert "canary" in loaded.database.url


def test_order_of_keys_and_a_variable_of_ones_own(load):
    environ = {"OPENAI_API_KEY": "1", "ANTHROPIC_API_KEY": "2", "GEMINI_API_KEY": "3", "GOOGLE_API_KEY": "4"}
    text = '[providers.openai]\napi_key_env = "WORK_KEY"\n'
    assert list(load("", environ).keys) == ["anthropic", "openai", "google"]
    assert load("", environ).keys["google"] == "environment GEMINI_API_KEY"
    assert "openai" not in load(text, environ).keys  # another key is not sent in its place
    assert load(text, {"WORK_KEY": "5"}).keys == {"openai": "environment WORK_KEY"}


def test_environment_goes_before_a_login(load):
    logins = ["zeta", "google", "openai", "alpha"]
    loaded = config.load(load.file, {"OPENAI_API_KEY": "sk-canary"}, {}, logins=logins)
    assert list(loaded.keys.items()) == [
        ("openai", "environment OPENAI_API_KEY"),
        ("google", "login"),
        ("alpha", "login"),
        ("zeta", "login"),
    ]
    assert ("API key of google", "set", "login") in config.describe(loaded)


@pytest.mark.parametrize(
    ("name", "api", "needs_address"),
    [
        ("anthropic", "", False),
        ("anthropic", "anthropic", False),
        ("anthropic", "chat", True),
        ("google", "", False),
        ("google", "anthropic", True),
        ("openai", "", False),
        ("openai", "chat", False),
        ("openai", "responses", False),
        ("openai", "google", True),
        ("work", "", True),
        ("work", "chat", True),
        ("work", "responses", True),
        ("work", "anthropic", False),
        ("work", "google", False),
    ],
)
def test_vendors_key_goes_to_that_vendor_or_to_an_address(load, name, api, needs_address):
    text = f'[providers.{name}]\napi = "{api}"\n'
    if needs_address:
        assert f"config.toml:2: the provider {name} has no base_url." in refusal(load, text)
    else:
        assert load(text).providers[name] == records.ProviderSettings(api=api)
    assert load(f'{text}base_url = "http://h"').providers[name] == records.ProviderSettings("http://h", api)


def test_what_is_said_of_a_model(load):
    text = '[models."work/x"]\nlevels = ["low", "high"]\nimages = "no"\ninput_price = 3\ncached_price = 0\n'
    said = load(text).models["work/x"]
    assert said == records.ModelSettings(levels=("low", "high"), images="no", input_price=3.0, cached_price=0.0)
    assert (said.output_price, said.written_price) == (-1, -1)
    assert ('models."work/x".levels', '["low", "high"]', f"configuration {load.file}:2") in config.describe(load(text))


def test_usual_variables_of_addresses(load):
    environ = {"ANTHROPIC_BASE_URL": "http://a", "GOOGLE_GEMINI_BASE_URL": "https://g"}
    loaded = load("", environ)
    assert {name: server.base_url for name, server in loaded.providers.items()} == {
        "anthropic": "http://a",
        "google": "https://g",
    }
    assert loaded.origin(("providers", "google", "base_url")) == "environment GOOGLE_GEMINI_BASE_URL"


def test_usual_variable_of_openai(load):
    text = '[providers.openai]\nbase_url = "http://file/v1"\n'
    environ = {"OPENAI_BASE_URL": "http://usual/v1"}
    assert load(text).providers["openai"].base_url == "http://file/v1"
    assert load(text, environ).providers["openai"].base_url == "http://usual/v1"
    own = {**environ, "IKIGAI_PROVIDERS_OPENAI_BASE_URL": "http://own/v1"}
    assert load(text, own).providers["openai"].base_url == "http://own/v1"


def test_tables_of_providers_and_models(load):
    loaded = load(
        '[providers]\nollama = { base_url = "http://localhost:11434/v1", context = 32768 }\n'
        '[providers.local]\ncontext = 4096\nmodel_file = "~/m.gguf"\n'
        '[models]\n"ollama/qwen3:8b".context = 16384\n'
    )
    assert loaded.providers == {"ollama": records.ProviderSettings("http://localhost:11434/v1", context=32768)}
    assert loaded.local == records.LocalSettings("~/m.gguf", 4096)
    assert loaded.models == {"ollama/qwen3:8b": records.ModelSettings(16384)}
    assert ('models."ollama/qwen3:8b".context', "16384", f"configuration {load.file}:7") in config.describe(loaded)
    assert loaded.origin(("providers", "ollama", "context")) == f"configuration {load.file}:2"


# ── What memory is told ──


def test_layers_of_the_defaults(load):
    below = {"model": "", "level": "", "budget": 100_000, "system": ""}
    assert layers.split_layers(load("")) == layers.ConfigLayers(below, {}, {"budget": "default", "system": "default"})


def test_file_goes_below_flags_and_variables_above(load):
    text = 'model = "openai/gpt-5:high"\nsystem_prompt = "be brief"\n[context]\nsliding_context_tokens = 5\n'
    assert layers.split_layers(load(text)) == layers.ConfigLayers(
        {"model": "openai/gpt-5", "level": "high", "budget": 5, "system": "be brief"},
        {},
        {
            key: f"configuration {load.file}:{line}"
            for key, line in {"model": 1, "level": 1, "budget": 4, "system": 2}.items()
        },
    )
    found = layers.split_layers(load(text, {"IKIGAI_SLIDING_CONTEXT_TOKENS": "0"}, {"model": "ollama/qwen3:8b"}))
    assert found.above == {"budget": 0, "model": "ollama/qwen3:8b"}  # an agent may choose its level
    assert found.below == {"system": "be brief", "level": ""}  # the file's level was for the file's model
    assert found.origins["model"] == "flag --model"
    assert found.origins["budget"] == "environment IKIGAI_SLIDING_CONTEXT_TOKENS"
    assert "level" not in found.origins
    named = layers.split_layers(load(text, {"IKIGAI_MODEL": "openai/gpt-5:off"}))
    assert named.above == {"model": "openai/gpt-5", "level": "off"}
    assert named.origins["level"] == "environment IKIGAI_MODEL"


# ── Bad input ──


@pytest.mark.parametrize(
    "text, said",
    [
        ('\nmodle = "openai/x"', "config.toml:2: there is no key modle. Did you mean model?"),
        ("[context]\nsliding_tokens = 5", "config.toml:2: there is no key context.sliding_tokens. "
         "Did you mean context.sliding_context_tokens?"),
        ("sliding_context_tokens = 5", "config.toml:1: there is no key sliding_context_tokens. "
         "Did you mean context.sliding_context_tokens?"),
        ("context = 5", "config.toml:1: there is no key context. Did you mean context.sliding_context_tokens?"),
        ('[terminal]\nmodel = "a/b"', "config.toml:2: there is no key terminal.model. "
         "Did you mean model (above the first [table])?"),
        ('tools_off = ["web"]', "config.toml:1: there is no key tools_off. A profile has tools_off, "
         "a trusted project [tools] off; /tools off SET switches a set off for an agent."),
        ('[tools]\ntools_off = ["web"]', "config.toml:2: there is no key tools.tools_off. A profile has tools_off, "
         "a trusted project [tools] off; /tools off SET switches a set off for an agent."),
        ('database_url = "x"', "config.toml:1: there is no key database_url. Did you mean database.url?"),
        ("[context]\nlimits_day_usd = 5",
         "config.toml:2: there is no key context.limits_day_usd. Did you mean limits.day_usd?"),
        ("[contxt]\n", "config.toml:1: there is no key contxt. Did you mean context?"),
        ('[providers.ollama]\nbase_ulr = ""', "config.toml:2: there is no key providers.ollama.base_ulr. "
         "Did you mean providers.ollama.base_url?"),
        ('[local]\ncontext = 2', "config.toml:2: there is no key local.context. Did you mean providers.local.context?"),
        ("[database.url]\nhost = 1", "config.toml:2: there is no key database.url.host. Did you mean database.url?"),
        ("[agents]\ndepth = 1", "config.toml:2: there is no key agents.depth any more. "
         "Remove the line: the value is fixed now."),
        ('[mcp_servers.x]\napproval = "always"', "config.toml:2: there is no key mcp_servers.x.approval any more. "
         'Write approved_tools = ["*"] to let all its tools run.'),
        ("[providers.x]\nmax_output = 5", "config.toml:2: there is no key providers.x.max_output any more. "
         'Write it under [models."PROVIDER/NAME"].'),
        ('terminal.links = "on"', "config.toml:1: there is no key terminal.links any more. "
         "Set FORCE_HYPERLINK=1 for links in any terminal, FORCE_HYPERLINK=0 for none."),
        ("[profiles.x]\nauto_recal = 5", "config.toml:2: there is no key profiles.x.auto_recal. "
         "Did you mean profiles.x.auto_recall?"),
        ('[themes.x]\ncolour = "red"', "config.toml:2: there is no key themes.x.colour. "
         "A table [themes.NAME] has the keys base, user, dim, warning, error, added, removed."),
        ("zzz = 1", "config.toml:1: there is no key zzz. config.example.toml shows them all."),
        ("zebra = 1", "config.toml:1: there is no key zebra. config.example.toml shows them all."),
        ("model = {}", "config.toml:1: model cannot be a table. Allowed: provider/name, "
         "or provider/name:level (off, min, low, med, high)."),
        ("[context]\nsliding_context_tokens = true", "config.toml:2: context.sliding_context_tokens cannot be true. "
         "Allowed: a number of tokens, 0 to 1000000000, also as '200k'."),
        ("context.sliding_context_tokens = 1.0", "config.toml:1: context.sliding_context_tokens cannot be 1.0. "
         "Allowed: a number of tokens, 0 to 1000000000, also as '200k'."),
        ('context.sliding_context_tokens = "five"', "config.toml:1: context.sliding_context_tokens cannot be 'five'. "
         "Allowed: a number of tokens, 0 to 1000000000, also as '200k'."),
        ("[context]\n\nsliding_context_tokens = -1", "config.toml:3: context.sliding_context_tokens cannot be -1. "
         "Allowed: a number of tokens, 0 to 1000000000, also as '200k'."),
        ("system_prompt = 2026-11-21", "config.toml:1: system_prompt cannot be 2026-11-21. "
         "Allowed: text, in UTF-8 and without NUL."),
        ('system_prompt = "a\\u0000b"', "config.toml:1: system_prompt cannot be 'a\\x00b'. "
         "Allowed: text, in UTF-8 and without NUL."),
        ('start_with = ["last"]', "config.toml:1: start_with cannot be a list. "
         'Allowed: "last", "directory" or "new".'),
        ('terminal.color = "yes"', "config.toml:1: terminal.color cannot be 'yes'. "
         'Allowed: "auto", "never" or "always".'),
        ('[terminal]\ntheme = "drak"', "config.toml:2: terminal.theme: there is no theme 'drak'. "
         'Did you mean "dark"?'),
        ('[terminal]\ntheme = "mine"', "config.toml:2: terminal.theme: there is no theme 'mine'. "
         "Write a table [themes.mine] in the configuration."),
        ('[terminal]\ntheme = "my own"', "config.toml:2: terminal.theme cannot be 'my own'. Allowed: "
         '"auto", "light", "dark", "light-high-contrast", "dark-high-contrast" or NAME of a table [themes.NAME].'),
        ("[themes.dark]", "config.toml:1: the table [themes.dark] has no usable name. Use letters, digits, - and _, "
         "and another name than auto, light, dark, light-high-contrast, dark-high-contrast."),
        ('[themes.mine]\nbase = "dull"', "config.toml:2: themes.mine.base cannot be 'dull'. Allowed: "
         '"light", "dark", "light-high-contrast" or "dark-high-contrast".'),
        ('[themes.mine]\nwarning = "bold orange"', "config.toml:2: themes.mine.warning cannot be 'bold orange'. "
         "Allowed: bold, dim, italic, underline, reverse, a colour (red, bright_red …, 0 to 255 or #rrggbb) and, "
         'after on, a background colour, for example "bold #ffaf00 on 236".'),
        ('[themes.mine]\nwarnings = "red"', "config.toml:2: there is no key themes.mine.warnings. "
         "Did you mean warning?"),
        ('[terminal]\nstatus = ["agent", "clock"]', "config.toml:2: terminal.status cannot be a list with 'clock'. "
         'Allowed: a list of "agent", "background", "model", "context", "out", "cost" and "database".'),
        ('[terminal]\nscreen_reader = "yes"', "config.toml:2: terminal.screen_reader cannot be 'yes'. "
         "Allowed: true or false."),
        ('providers.local.model_file = "m.gguf"', "config.toml:1: providers.local.model_file cannot be 'm.gguf'. "
         "Allowed: a path that begins with / or ~/."),
        ('[models."a/b"]\nlevels = ["low", 5, "max"]', 'config.toml:2: models."a/b".levels cannot be a list with 5. '
         "Allowed: a list of levels (off, min, low, med, high)."),
        ('[providers.x]\nbase_url = "http://h:99999/v1"', "config.toml:2: providers.x.base_url cannot be "
         "'http://h:99999/v1'. Allowed: an address that begins with http:// or https://, and if it has a port, one up "
         "to 65535."),
        ('[providers.x]\napi = "soap"', "config.toml:2: providers.x.api cannot be 'soap'. "
         'Allowed: "chat", "responses", "anthropic", "google", "azure", "bedrock", "vertex" or "" (by its name).'),
        ('[context]\ntoken_counter = "exact"', "config.toml:2: context.token_counter cannot be 'exact'. "
         'Allowed: "bytes", "provider" or "calibrated".'),
        ('[mcp_servers.x]\ncall_seconds = 0', "config.toml:2: mcp_servers.x.call_seconds cannot be 0. "
         "Allowed: a whole number of seconds, 1 to 86400."),
        ('[models."a/b"]\nlevels = ["low", "max"]', 'config.toml:2: models."a/b".levels cannot be a list '
         "with 'max'. Allowed: a list of levels (off, min, low, med, high)."),
        ('[models."a/b"]\nlevels = "low"', "config.toml:2: models.\"a/b\".levels cannot be 'low'. "
         "Allowed: a list of levels (off, min, low, med, high)."),
        ('[models."a/b"]\nimages = true', 'config.toml:2: models."a/b".images cannot be true. '
         'Allowed: "auto", "yes" or "no".'),
        ('[models."a/b"]\ninput_price = nan', 'config.toml:2: models."a/b".input_price cannot be nan. '
         "Allowed: dollars for a million tokens, up to 1000000, or -1."),
        ('[models."a/b"]\ninput_price = "3"', "config.toml:2: models.\"a/b\".input_price cannot be '3'. "
         "Allowed: dollars for a million tokens, up to 1000000, or -1."),
        ('[providers.x]\ncontext = 5', "config.toml:2: the provider x has no base_url. "
         'Add one: base_url = "http://localhost:11434/v1".'),
        ('[providers."My Box"]\ncontext = 5', 'config.toml:1: the table [providers."My Box"] has no usable name. '
         "Use small letters, digits, - and _."),
        ("[models.gpt-5]\ncontext = 5", "config.toml:1: the table [models.gpt-5] has no usable name. "
         'Write [models."provider/name"].'),
        ('[models."openai/x:high"]\ncontext = 5',
         'config.toml:1: the table [models."openai/x:high"] has no usable name. '
         'Write [models."provider/name"].'),
        ("model = openai/x", "config.toml:1 is not valid TOML: the value is missing, or it is text without quotes "
         "(column 9). Correct that line."),
        ('start_with = "new"\n\nmodel = "x', "config.toml:3 is not valid TOML: the quote at the end of a text is "
         "missing. Correct that line."),
        ('model = "a/b"\nmodel = "a/c"\n', "config.toml:2 is not valid TOML: this key is in the file already "
         "(column 14). Correct that line."),
        ("[terminal]\n[context]\n[terminal]\n", "config.toml:3 is not valid TOML: this table is in the file already "
         "(column 10). Correct that line."),
        ("[context\nx = 1", "config.toml:1 is not valid TOML: the ] at the end of a table's name is missing "
         "(column 9). Correct that line."),
        ("\n[contxt]\nx = 1\ny = 2", "config.toml:2: there is no table [contxt]. Did you mean [context]?"),
        ('[provider.ollama]\nbase_url = "http://h"', "config.toml:1: there is no table [provider.ollama]. "
         "Did you mean [providers.ollama]?"),
        ('[profiles.default]\nmodel = "a/b"', "config.toml:1: the table [profiles.default] has no usable name. "
         "Use letters, digits, - and _; default means no profile."),
        ('[profiles.fast]\ninherits = "zzz"', "config.toml:2: profiles.fast.inherits: there is no profile 'zzz'. "
         "Write a table [profiles.zzz] in the configuration."),
        ('[tools]\nallow = [""]', "config.toml:2: tools.allow cannot be a list with ''. "
         'Allowed: a list of commands, for example ["npm test", "make *"].'),
        ('[tools]\nprivate_hosts = ["http://x/"]', "config.toml:2: tools.private_hosts cannot be a list with "
         "'http://x/'. Allowed: a list of names or addresses of hosts, for example [\"localhost\", \"wiki.lan\"]."),
        ('[profiles.x]\ntools_off = [""]', "config.toml:2: profiles.x.tools_off cannot be a list with ''. "
         "Allowed: a list of sets of tools (agents, ask, external, files, mcp, memory, shell, skills, vendor_search, "
         "web)."),
        (b'model = "a/b"\n# caf\xe9\n', "config.toml:2 is not UTF-8 text. Save the file as UTF-8."),
        (b'\xff\xfem\0o\0', "config.toml:1 is not UTF-8 text. Save the file as UTF-8."),
    ],
)  # fmt: skip
def test_what_a_file_is_refused_for(load, text, said):
    assert refusal(load, text) == said


def test_all_errors_of_a_file_and_of_variables_are_told(load):
    text = '[contxt]\nx = 1\ny = 2\n[tools]\napproval = "maybe"\n[terminal]\nthem = "dark"\n'
    assert refusal(load, text, {"IKIGAI_PRUNE_FRACTION": "2"}).splitlines() == [
        "config.toml:1: there is no table [contxt]. Did you mean [context]?",
        'config.toml:5: tools.approval cannot be \'maybe\'. Allowed: "read-only", "ask", "edits" or "auto" '
        '("yolo" only as the flag --yolo).',
        "config.toml:7: there is no key terminal.them. Did you mean terminal.theme?",
        "IKIGAI_PRUNE_FRACTION cannot be 2.0. Allowed: a number from 0 to 0.5.",
    ]
    many = refusal(load, "".join(f"zzz{number} = 1\n" for number in range(30))).splitlines()
    assert len(many) == 21 and many[-1] == "And 10 more."


@pytest.mark.parametrize(
    "name, remedy",
    [
        ("IKIGAI_MODELL", "Did you mean IKIGAI_MODEL?"),
        ("IKIGAI_CONTEXT_SLIDING_CONTEXT_TOKENS", "Did you mean IKIGAI_SLIDING_CONTEXT_TOKENS?"),
        ("IKIGAI_ZZZ", "`ikigai config` lists the keys."),
        (
            "IKIGAI_PROVIDERS_WIRE_BASE_URL",
            "Variables set keys of the providers that your configuration has a table of.",
        ),
        *(
            (f"IKIGAI_{table}", "Models, MCP servers, profiles and themes are set in the configuration.")
            for table in ("PROFILES_FAST_MODEL", "MCP_SERVERS_FILES_ENABLED")
        ),
    ],
)
def test_variable_that_sets_nothing_is_told(load, name, remedy):
    told = load("", {name: "1"}).unknown_variables
    assert told == (f"{name} is set, but is not a variable of ikigai. {remedy}",)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("IKIGAI_AUTO_RECALL_TOKENS", "Unset it: the value is fixed now."),
        ("IKIGAI_TERMINAL_NOTIFY_AFTER", "Unset it: the value is fixed now."),
        ("IKIGAI_TERMINAL_UPDATE_INDEX", "Set PIP_INDEX_URL."),
        ("IKIGAI_DATABASE_USER_NAME", "Unset it: the name is that of your account on this machine."),
    ],
)
def test_variable_of_a_removed_key_is_told_with_what_to_do(load, name, remedy):
    told = load("", {name: "1"}).unknown_variables
    assert told == (f"{name} is set, but is not a variable of ikigai any more. {remedy}",)


def test_variables_that_are_known_are_not_told(load):
    names = ("IKIGAI_PROCESS", "IKIGAI_PROVIDERS_WIRE_CONTEXT", "IKIGAI_SYSTEM_PROMPT", "PATH")
    text = '[providers.wire]\nbase_url = "http://h"\n'
    assert load(text, dict.fromkeys(names, "1")).unknown_variables == ()


def test_variable_of_a_list_can_be_written_as_in_a_file(load):
    assert load("", {"IKIGAI_TERMINAL_STATUS": '["model", "cost"]'}).terminal.status == ("model", "cost")
    assert "cannot be '[model]'" in refusal(load, "", {"IKIGAI_TERMINAL_STATUS": "[model]"})


def test_sizes_with_units_mean_the_same_everywhere(load, tmp_path):
    for text, size in (("200k", 200_000), ("1.5M", 1_500_000)):
        key, variable = "context.max_tool_result_tokens", "IKIGAI_MAX_TOOL_RESULT_TOKENS"
        for loaded in (load(f'{key} = "{text}"'), load("", {variable: text})):
            assert loaded.settings[tuple(key.split("."))].value == size
        assert arguments.parse_budget(text) == size
        profiled = config.with_profile(load(f'[profiles.x]\nsliding_context_tokens = "{text}"'), "x")
        assert profiled.context.sliding_context_tokens == size
    assert "cannot be '5k'" in refusal(load, '[mcp_servers.x]\ncall_seconds = "5k"')  # seconds have no unit


def test_theme_of_ones_own_is_found_with_its_looks(load):
    text = '[terminal]\ntheme = "mine"\nstatus = []\n[themes.mine]\nbase = "light"\nadded = "bold #0A0b0c on 7"\n'
    loaded = load(text + 'dim = ""\n[themes.empty]\n')
    assert loaded.themes == {
        "mine": {"base": "light", "added": "bold #0A0b0c on 7", "dim": ""},
        "empty": {"base": "dark"},
    }
    assert loaded.terminal.theme == "mine" and loaded.terminal.status == ()
    assert load(text, {"IKIGAI_TERMINAL_STATUS": "cost, agent"}).terminal.status == ("cost", "agent")
    shown = {key: (value, origin) for key, value, origin in config.describe(loaded)}
    assert shown["themes.mine.base"] == ('"light"', f"configuration {load.file}:5")


@pytest.mark.parametrize(
    "look", ["", "red", "bold", "bold dim italic 255", "on #ffffff", "bright_black on 0", " underline  7 "]
)
def test_looks(load, look):
    assert load(f"[themes.mine]\nerror = '{look}'").themes["mine"]["error"] == look


@pytest.mark.parametrize(
    "look",
    ["256", "-1", "red bold", "red green", "on", "on bold", "#fff", "#gggggg", "boldred", "bright_", "1.5", "red\n"],
)
def test_what_is_no_look(load, look):
    assert "themes.mine.error cannot be" in refusal(load, f"[themes.mine]\nerror = {json.dumps(look)}")


@pytest.mark.parametrize("name", ["model", "openai/", "/x", "open ai/x", "openai/x y", "//x", "a/\n", "a/\udcff"])
def test_flag_is_named_when_its_value_is_none(load, name):
    said = refusal(load, "", {}, {"model": name})
    assert said.startswith(f"--model cannot be {name!r}. Allowed: provider/name")


def test_flag_that_names_a_provider_alone_is_told_how_to_name_a_model(load):
    said = refusal(load, "", {}, {"model": "groq"})
    assert said == "--model cannot be 'groq'. Write groq/NAME. `ikigai models groq` lists its models."


@pytest.mark.parametrize(
    "text",
    ['api_key = "canary"', '[providers.openai]\napi_key = "canary"', 'OPENAI-API-KEY = "canary"',
     '[database]\npassword = "canary"', '[providers.openai]\napi_key_env = "sk-canary"',
     '[providers.openai]\napi_key_env = "canary"'],
)  # fmt: skip
def test_key_in_the_file_is_refused_and_not_repeated(load, text):
    said = refusal(load, text)
    assert "variable" in said and "canary" not in said


@pytest.mark.parametrize(
    "value", ["gpt", "localhost:11434", "ftp://h", "http://", "http://a b", "http://h:99999", "http://h:x/v1"]
)
def test_web_address_has_to_be_one(load, value):
    assert "OPENAI_BASE_URL cannot be" in refusal(load, "", {"OPENAI_BASE_URL": value})


def test_byte_order_mark_and_windows_lines(load):
    loaded = load(b'\xef\xbb\xbf# hi\r\n\r\nmodel = "a/b"\r\n')
    assert loaded.origin(("model",)) == f"configuration {load.file}:3"


@pytest.mark.parametrize(
    "text",
    ["model" + ".a" * 2_000 + " = 1", "model = " + "[" * 2_000, "model = " + "{a=" * 2_000, "model = " + "1" * 5000,
     "model = '" + "x" * 1_000_000 + "'", "\0", '"' * 7, "[[providers.ollama]]\ncontext = 1", "[[models]]"],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_hostile_files_are_refused_in_a_sentence(load, text):
    assert len(refusal(load, text)) < 200


def test_file_that_is_not_there(tmp_path):
    file = tmp_path / "none" / "config.toml"
    assert config.load(file, {}, {}).settings.keys() == {table.DATABASE_URL}
    with pytest.raises(ConfigError, match=r"does not exist\. Check the name of the file"):
        config.load(file, {}, {}, must_exist=True)


def test_things_that_are_no_file(tmp_path):
    (tmp_path / "link").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    for place, reason in {
        tmp_path: os.strerror(errno.EISDIR),
        tmp_path / "link": "a link to a file that does not exist",
        tmp_path / "pipe": "a pipe, not a file",
        tmp_path / "file" / "config.toml": os.strerror(errno.ENOTDIR),
        Path("/dev/zero"): "larger than 1 MB",
    }.items():
        with pytest.raises(ConfigError, match=reason):
            config.load(place, {}, {})
    assert config.load(Path(os.devnull), {}, {}, must_exist=True).model == ""


def test_file_without_the_right_to_read_it(tmp_path):
    file = tmp_path / "config.toml"
    file.touch(mode=0)
    me = os.geteuid()
    if me == 0:
        os.seteuid(65534)  # root reads everything
    try:
        with pytest.raises(ConfigError, match=os.strerror(errno.EACCES)):
            config.load(file, {}, {})
    finally:
        os.seteuid(me)


def test_nothing_is_read_from_the_working_directory(tmp_path, monkeypatch):
    for name in ("config.toml", ".env", ".ikigai/config.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('model = "evil/x"\n')
    monkeypatch.chdir(tmp_path)
    assert config.load(tmp_path / "home" / "config.toml", {}, {}).model == ""


# ── Lines ──

TRICKY = (
    r"""
# model = "no"
"model" = "a/b" # context.x = 1
system_prompt = QQQ
model = "no"
[context]
QQQ
 [ context ] # [database]
'sliding_context_tokens' = 5
[providers . "x.y#z"]
base_url = DDD
[a] \DDD DDD" # " QQQ
 "con\u0074ext"= 1
x = 5
list = [ # QQQ
  "url = 1", # [b]
  "x",
]
[models.'a/b']
models = 1
deep . er = { inline = 1, more = { yet = 2 } }
""".removeprefix("\n")
    .replace("QQQ", "'" * 3)
    .replace("DDD", '"' * 3)
)


def line_by_reading(text, path):
    """Return the line at whose end the document, cut there, holds `path` for the first time, less the lines of its own
    value.
    """
    lines = text.split("\n")
    for end in range(1, len(lines) + 1):
        try:
            value = tomllib.loads("\n".join(lines[:end]))
            for name in path:
                value = value[name]
        except (tomllib.TOMLDecodeError, KeyError, TypeError):
            continue
        return end - (value.count("\n") + 1 if isinstance(value, str) and "\n" in value else 0)
    raise AssertionError(path)


def test_lines_of_a_tricky_file(load):
    load.file.write_text(TRICKY)
    found = {entry.path: entry.line for entry in toml_file.read(load.file, True)}
    assert found == {
        ("model",): 2,
        ("system_prompt",): 3,
        ("context", "sliding_context_tokens"): 8,
        ("providers", "x.y#z", "base_url"): 10,
        ("providers", "x.y#z", "context"): 12,
        ("providers", "x.y#z", "x"): 13,
        ("providers", "x.y#z", "list"): 14,
        ("models", "a/b", "models"): 19,
        ("models", "a/b", "deep"): 20,
    }


names = st.one_of(st.from_regex(r"[a-z0-9_-]{1,6}", fullmatch=True), st.text("a.\"'#=[] \\é", max_size=5))
values = st.one_of(st.integers(), st.text("ab=[]#'\"\\ ", max_size=12), st.booleans())


@given(st.dictionaries(names, st.one_of(values, st.dictionaries(names, values, max_size=3)), max_size=6), st.data())
def test_every_key_is_found_in_the_line_that_first_holds_it(tmp_path_factory, document, data):
    """Tables as headers, dotted keys or inline, with comments between them: the line is where reading finds the key."""
    lines, tables = [], []
    for name, value in document.items():
        key = json.dumps(name)
        if not isinstance(value, dict):
            lines.append(f"{key} = {json.dumps(value)} # x = 1")
        elif data.draw(st.booleans()):
            lines.append(f"{key} = {{ {', '.join(f'{json.dumps(k)} = {json.dumps(v)}' for k, v in value.items())} }}")
        elif data.draw(st.booleans()):
            lines += [f"{key}.{json.dumps(k)} = {json.dumps(v)}" for k, v in value.items()]
        else:
            tables += [f"# {name}", f" [ {key} ]", "", *(f"{json.dumps(k)}={json.dumps(v)}" for k, v in value.items())]
    text = "\n".join(lines + tables)
    file = tmp_path_factory.mktemp("toml") / "f.toml"
    file.write_text(text)
    for path, _, line, _ in toml_file.read(file, True):
        assert line == line_by_reading(text, path), path


# ── Masking ──


@pytest.mark.parametrize(
    "text, shown",
    [
        ("postgresql://me:hush@h/db", "postgresql://me:***@h/db"),
        ("postgresql://me:h@u/s:h@h1,h2/db?x=1", "postgresql://me:***@h1,h2/db?x=1"),
        ("postgresql://:hush@h", "postgresql://:***@h"),
        ("postgresql://me@h:5432/db", "postgresql://me@h:5432/db"),
        ("postgresql://h:5432/db", "postgresql://h:5432/db"),
        ("postgresql://h/db?password=hush&x=1", "postgresql://h/db?password=***"),
        ("host=h password=hush dbname=d", "host=h password=*** dbname=d"),
        (r"host=h PASSWORD = 'hu s\'h' dbname=d", "host=h PASSWORD = *** dbname=d"),
        (r"host=h sslpassword=hu\ sh", "host=h sslpassword=***"),
        ("password='hush unclosed", "password=***"),
        ("https://me:hush@proxy/v1", "https://me:***@proxy/v1"),
        ("be brief: no passwords", "be brief: no passwords"),
    ],
)
def test_masked(text, shown):
    assert config.mask_passwords(text) == shown
