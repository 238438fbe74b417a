"""Profiles as a file has them: what they set, inherit and may not, and what a run and /profile make of them."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import fields

from ikigai import config
from ikigai.app.agents.managed_subagents import _child_tools
from ikigai.app.json_records.command_figures import ProfileFields
from ikigai.app.run import factories as making
from ikigai.app.run import run_profiles
from ikigai.config import Config, layers
from ikigai.config.key_table import KEY_SPECS, PROFILE_KEYS
from ikigai.config.profiles import profile_settings
from ikigai.config.records import ContextSettings
from ikigai.core.errors import ConfigError, Rejected
from ikigai.core.events.events import Choices, StoredEvent
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.inputs import Change
from ikigai.core.state.memory import next_request
from ikigai.core.tools.tool_selection import EVERY_SET
from ikigai.core.views.transcript import event_blocks
from ikigai.repl.commands import permission_commands as permissions
from tests.core.agent import Agent

FILE = """\
system_prompt = "plain"
[context]
prune_fraction = 0.1
[profiles.base]
model = "scripted/base:high"
sliding_context_tokens = 20000
keep_first_turn = true
approval = "edits"
[profiles.fast]
inherits = "base"
level = "low"
sliding_context_tokens = -1
max_tool_result_tokens = 500
token_counter = "calibrated"
tools_off = ["shell", "web"]
[profiles.other]
inherits = "fast"
model = "scripted/other"
tools = false
[profiles.empty]
"""


def load(folder: Path, text: str, environ: dict[str, str] | None = None, **flags: Any) -> Config:
    file = folder / "config.toml"
    file.write_text(text)
    return config.load(file, environ or {}, flags)


def opened(loaded: Config) -> RunConfig:
    return making.make_run(loaded, making.make_pool(loaded), making.make_tool_runtime(loaded))


def test_every_key_of_context_can_stand_in_a_profile() -> None:
    assert {path[1] for path in PROFILE_KEYS.values() if path[0] == "context"} == {
        each.name for each in fields(ContextSettings)
    }
    assert all(path in KEY_SPECS for path in PROFILE_KEYS.values())


def test_what_a_profile_sets_with_what_it_inherits(tmp_path: Path) -> None:
    loaded = load(tmp_path, FILE)
    said = {name: {key: each.value for key, each in profile_settings(loaded, name).items()} for name in loaded.profiles}
    base = {
        "model": "scripted/base:high",
        "sliding_context_tokens": 20000,
        "keep_first_turn": True,
        "approval": "edits",
    }
    more = {"max_tool_result_tokens": 500, "token_counter": "calibrated", "tools_off": ["shell", "web"]}
    assert said["base"] == base and said["empty"] == {}
    assert said["fast"] == {**base, "level": "low", **more}, "-1 leaves a key to what is inherited"
    assert said["other"] == {**base, **more, "model": "scripted/other", "tools": False}, (
        "the level was the other model's"
    )
    fast = config.with_profile(loaded, "fast")
    assert (fast.context.sliding_context_tokens, fast.context.prune_fraction) == (20000, 0.1)
    assert fast.origin(("context", "keep_first_turn")) == "profile fast"
    assert layers.profile_choices(loaded, "base") == {
        "model": "scripted/base",
        "level": "high",
        "budget": 20000,
        "approval": "edits",
    }
    assert (
        layers.profile_choices(loaded, "fast")["tools_off"] == "shell,web"
        and layers.profile_choices(loaded, "empty") == {}
    )
    assert layers.profile_choices(loaded, "other")["tools_off"] == EVERY_SET


def test_flags_and_variables_go_before_a_profile(tmp_path: Path) -> None:
    environ = {"IKIGAI_SLIDING_CONTEXT_TOKENS": "7", "IKIGAI_KEEP_FIRST_TURN": "false", "IKIGAI_PROFILE": "fast"}
    loaded = load(tmp_path, FILE, environ, model="scripted/flag")
    run = opened(loaded)
    found = run.resolve({})
    assert (found["profile"], found["model"], found["level"], found["budget"]) == ("fast", "scripted/flag", "", 7)
    assert (found["approval"], found["tools_off"]) == ("edits", "shell,web")
    chosen = layers.profile_choices(loaded, "base")
    assert (chosen["model"], chosen["budget"]) == ("scripted/base", 20000), "what /profile typed in the run sets"
    rules = run.with_profile("fast").rules
    assert (rules.keep_first_turn, rules.result_limits.max_tokens, rules.prune_fraction) == (False, 500, 0.1)
    assert (run.with_profile("fast").counter, run.with_profile("").counter, run.with_profile("gone").rules) == (
        "calibrated",
        "bytes",
        run.rules,
    )
    assert run.with_profile("fast").with_profile("") == run, "and back"


def test_flag_is_for_a_run_and_default_is_none(tmp_path: Path) -> None:
    loaded = load(tmp_path, f'profile = "base"\n{FILE}')
    assert opened(loaded).resolve({})["budget"] == 20000
    assert opened(loaded).origin("profile", {}) == f"configuration {tmp_path}/config.toml:1"
    none = opened(load(tmp_path, f'profile = "base"\n{FILE}', profile="default"))
    assert none.resolve({"profile": "fast"})["budget"] == 100_000 and none.origin("profile", {}) == "flag --profile"
    rows = {key: (value, origin) for key, value, origin in config.describe(loaded)}
    assert rows["context.keep_first_turn"] == ("true", "profile base")
    assert rows["profiles.fast.level"] == ('"low"', f"configuration {tmp_path}/config.toml:12")
    assert {key: origin for key, _, origin in config.describe(loaded, "")}["context.keep_first_turn"] == "default"


def test_profile_can_offer_the_tools_that_the_file_does_not(tmp_path: Path) -> None:
    text = "[tools]\nenabled = false\n[profiles.hands]\ntools = true\n"
    run = opened(load(tmp_path, text))
    assert (
        run.tools and run.resolve({})["tools_off"] == EVERY_SET and run.resolve({"profile": "hands"})["tools_off"] == ""
    )
    assert not opened(load(tmp_path, text, None, **{"tools.enabled": False})).tools, "--no-tools is for all"
    assert not opened(load(tmp_path, text.replace("true", "false"))).tools


def test_sets_of_tools_switched_against_the_profile(tmp_path: Path) -> None:
    agent = Agent(opened(load(tmp_path, f"{FILE}[providers.local]\n")))
    agent.happen(Change({"profile": "fast"}))
    shown = permissions.run_tools("", agent.memory)
    assert isinstance(shown, str) and "off  shell: " in shown
    for line, wanted in (("on shell", "web"), ("on web", ""), ("off web", "web"), ("off shell", None)):
        change = permissions.run_tools(line, agent.memory)
        assert isinstance(change, Change) and change.values == {"tools_off": wanted}
        agent.happen(change)
    agent.happen(Change({"profile": "other"}))
    assert "on  " not in str(permissions.run_tools("", agent.memory))


def test_tools_off_of_a_profile_is_no_own_choice_in_whatever_order_the_profile_names_the_sets(tmp_path: Path) -> None:
    agent = Agent(opened(load(tmp_path, '[providers.local]\n[profiles.a]\ntools_off = ["web", "shell"]\n')))
    agent.happen(Change({"profile": "a"}))
    assert agent.memory.settings["tools_off"] == "web,shell"
    for line, wanted in (("on web", "shell"), ("off web", None)):
        change = permissions.run_tools(line, agent.memory)
        assert isinstance(change, Change) and change.values == {"tools_off": wanted}
        agent.happen(change)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('profile = "nan"\n[profiles.nano]\n',
         "config.toml:1: profile: there is no profile 'nan'. Did you mean \"nano\"?"),
        ('profile = "x"',
         "config.toml:1: profile: there is no profile 'x'. Write a table [profiles.x] in the configuration."),
        ('[profiles.a]\ninherits = "b"',
         "config.toml:2: profiles.a.inherits: there is no profile 'b'. "
         "Write a table [profiles.b] in the configuration."),
        ('[profiles.a]\n\ninherits = "a"',
         "config.toml:3: profiles.a.inherits makes a circle: a → a. Remove one of these inherits."),
        ('[profiles.a]\ninherits = "b"\n[profiles.b]\ninherits = "c"\n[profiles.c]\ninherits = "b"',
         "config.toml:6: profiles.c.inherits makes a circle: b → c → b. Remove one of these inherits."),
        ('[profiles.a]\nmodle = "x/y"',
         "config.toml:2: there is no key profiles.a.modle. Did you mean profiles.a.model?"),
        ("[profiles.a.context]\nprune_fraction = 0.1",
         "config.toml:1: there is no key profiles.a.context. The keys of a profile belong in [profiles.a] itself."),
        ("[profiles.a]\nprune_fraction = 2.0", "config.toml:2: profiles.a.prune_fraction cannot be 2.0. "
         "Allowed: a number from 0 to 0.5."),
        ("[profiles.a]\nmax_tool_result_tokens = -2", "config.toml:2: profiles.a.max_tool_result_tokens cannot be -2. "
         "Allowed: a number of tokens, 1 to 1000000000, also as '200k'."),
        ("[profiles.a]\nkeep_first_turn = -1", "config.toml:2: profiles.a.keep_first_turn cannot be -1. "
         "Allowed: true or false."),
        ('[profiles.a]\nlevel = "hard"', "config.toml:2: profiles.a.level cannot be 'hard'. "
         'Allowed: a level (off, min, low, med, high) or "".'),
        ('[profiles.a]\napproval = "yolo"', "config.toml:2: profiles.a.approval cannot be 'yolo'. "
         'Allowed: "read-only", "ask", "edits" or "auto" ("yolo" only as the flag --yolo).'),
        ("[profiles.default]", "config.toml:1: the table [profiles.default] has no usable name. "
         "Use letters, digits, - and _; default means no profile."),
        ('[profiles."a b"]\nmodel = "x/y"', 'config.toml:1: the table [profiles."a b"] has no usable name. '
         "Use letters, digits, - and _; default means no profile."),
        ("[profiles]\na = 5",
         "config.toml:2: there is no key profiles.a. The keys of a profile belong in a table [profiles.NAME]."),
        ("profiles = 5",
         "config.toml:1: there is no key profiles. The keys of a profile belong in a table [profiles.NAME]."),
    ],
)  # fmt: skip
def test_what_a_file_cannot_say(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, text)
    assert str(refused.value).replace(f"{tmp_path}/", "") == said


def test_flag_or_a_variable_that_names_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^--profile: there is no profile 'fst'. Did you mean \"fast\"\?$"):
        load(tmp_path, FILE, profile="fst")
    with pytest.raises(ConfigError, match=r"^IKIGAI_PROFILE cannot be 'a b'. Allowed: the name of a profile"):
        load(tmp_path, FILE, {"IKIGAI_PROFILE": "a b"})


def test_what_profile_alone_answers(tmp_path: Path) -> None:
    loaded = load(tmp_path, FILE, {"IKIGAI_KEEP_FIRST_TURN": "false"})
    agent = Agent(opened(loaded))
    assert run_profiles.format_profiles(loaded, agent.memory).splitlines()[0] == "Profile: none"
    own: Choices = {"profile": "base", "budget": 9}
    for key, value in own.items():
        agent.happen(Change({key: value}))
    assert run_profiles.format_profiles(loaded, agent.memory) == (
        "Profile: base (your choice)\n"
        '→ base: model = "scripted/base:high", sliding_context_tokens = 20000, keep_first_turn = true,'
        ' approval = "edits"\n'
        '  fast (base): model = "scripted/base:high", sliding_context_tokens = 20000, keep_first_turn = true,'
        ' approval = "edits", level = "low", max_tool_result_tokens = 500, token_counter = "calibrated",'
        ' tools_off = ["shell", "web"]\n'
        '  other (fast): model = "scripted/other", sliding_context_tokens = 20000, keep_first_turn = true,'
        ' approval = "edits", max_tool_result_tokens = 500, token_counter = "calibrated",'
        ' tools_off = ["shell", "web"], tools = false\n'
        "  empty: sets nothing\n"
        "Overrides of the profile: sliding_context_tokens as you chose it, keep_first_turn from environment"
        " IKIGAI_KEEP_FIRST_TURN.\n"
        "/profile NAME chooses one, /profile default removes the choice."
    )
    figures = run_profiles.profiles_record(loaded, agent.memory)
    assert (figures.profile, figures.origin) == ("base", "agent")
    assert figures.profiles[3] == ProfileFields(name="empty", inherits=None, sets={})
    nothing = load(tmp_path, "")
    assert "[profiles.NAME]" in run_profiles.format_profiles(nothing, Agent(opened(nothing)).memory)


def test_missed_profile_is_told_once(tmp_path: Path) -> None:
    agent = Agent(opened(load(tmp_path, FILE)))
    agent.happen(Change({"profile": "base"}))
    assert run_profiles.missing_profile_notice(agent.memory) == ""
    without = opened(load(tmp_path, ""))
    agent.run = without
    assert run_profiles.missing_profile_notice(agent.loaded()).startswith(
        "The profile base, which this agent chose, no longer exists"
    )
    again = Agent(without, agent.log)
    assert run_profiles.missing_profile_notice(again.loaded()) == "" and again.memory.own == {"profile": "base"}


def test_vendor_search_is_switched_by_command_file_and_profile(tmp_path: Path) -> None:
    text = """model = "anthropic/claude-sonnet-5-5"
[tools]
vendor_search = {}
[profiles.searches]
vendor_search = true
[profiles.plain]
vendor_search = false
tools_off = ["web"]
"""
    key = {"ANTHROPIC_API_KEY": "sk-ant-0123456789abcdef"}
    agent = Agent(opened(load(tmp_path, text.format("false"), key)))

    def offered() -> bool:
        return "vendor_search" in [tool.name for tool in next_request(agent.memory).tools]

    assert not offered() and "off  vendor_search: vendor_search" in str(permissions.run_tools("", agent.memory))
    for line, on in (("on vendor_search", True), ("off vendor_search", False)):
        change = permissions.run_tools(line, agent.memory)
        assert isinstance(change, Change)
        (changed,) = agent.happen(change)
        (note,) = event_blocks(StoredEvent(1, "a", 1, 0.0, changed))
        assert offered() is on
        assert ("without asking, and charges for each search" in note.text) is on
    assert change.values == {"tools_off": None}, "as it is by the file"
    agent.happen(Change({"profile": "searches"}))
    assert offered()
    agent.happen(Change({"profile": "plain"}))
    assert not offered() and agent.memory.settings["tools_off"] == "web"
    agent.happen(Change({"profile": None}))
    agent = Agent(opened(load(tmp_path, text.format("true"), key)))
    assert offered()
    agent.happen(Change({"model": "scripted/other"}))
    assert not offered() and "vendor_search (not with scripted/other)" in str(permissions.run_tools("", agent.memory))
    agent.happen(Change({"tools_off": ""}))
    with pytest.raises(Rejected, match="search of its vendor that ikigai can use: it has no vendor"):
        permissions.run_tools("on vendor_search", agent.memory)


def test_child_of_a_model_searches_only_if_its_parent_may(tmp_path: Path) -> None:
    key = {"ANTHROPIC_API_KEY": "sk-ant-0123456789abcdef"}
    for text, own, named, may in (
        ("true", {}, None, True),
        ("true", {"tools_off": ""}, None, False),
        ("false", {}, ["vendor_search"], False),
        ("false", {"tools_off": "+vendor_search"}, None, True),
        ("false", {"tools_off": "+vendor_search"}, ["files"], False),
        ("false", {"tools_off": "+vendor_search"}, ["files", "vendor_search"], True),
    ):
        loaded = load(tmp_path, f'model = "anthropic/claude-sonnet-5-5"\n[tools]\nvendor_search = {text}\n', key)
        parent, child = Agent(opened(loaded)), Agent(opened(loaded))
        if own:
            parent.happen(Change(own))
        if given := _child_tools(parent.memory, named):
            child.happen(Change(given))
        offered = [tool.name for tool in next_request(child.memory).tools]
        assert ("vendor_search" in offered) is may, (text, own, named)
