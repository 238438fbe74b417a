"""The setting that is named for a refused call allows it, and no setting is named where none does."""

import os
import tomllib
from pathlib import Path

import pytest

from ikigai.core.events.messages import ToolCall
from ikigai.core.tools.approval_mode import ApprovalMode
from ikigai.tools.approval.allow_hints import describe_remedy
from ikigai.tools.approval.allow_rules import parse_rules
from ikigai.tools.approval.allowlist import Allowlist
from ikigai.tools.approval.path_policy import PathScope
from ikigai.tools.approval.policy import Allow, AskUser, decide_approval
from ikigai.tools.base import Effect, EffectKind

ONLY_YOLO = "--yolo allows everything."


def remedy(what: tuple[ToolCall, Effect], work: Path, mode: str = "ask", rules: tuple[str, ...] = ()) -> str:
    scope = PathScope(str(work), (), os.environ["PATH"])
    return describe_remedy(ApprovalMode(mode), *what, scope, Allowlist(parse_rules(rules, "")))


def shell(command: str, work: Path) -> tuple[ToolCall, Effect]:
    return ToolCall("1", "shell"), Effect(EffectKind.RUN, command, str(work))


@pytest.mark.parametrize(
    ("command", "rules"),
    [
        ("date -u", []),
        ("npm test", ["npm test"]),
        ("ls", []),
        ("make 'a b' && ls && npm run \"x y\"", ["make 'a b'", "npm run 'x y'"]),
        ("cd sub && npm test", ["npm test"]),
        ("cat ../x", ["cat ../x"]),
        ("git commit -m 'it'", ["git commit -m it"]),
    ],
)
@pytest.mark.parametrize("mode", ["ask", "edits", "auto"])
def test_command_is_allowed_by_the_named_setting(command: str, rules: list[str], mode: str, work: Path):
    (work / "sub").mkdir()
    what = shell(command, work)
    if mode == "auto" and not rules:
        return
    told = remedy(what, work, mode)
    assert told.startswith("Allow it: [tools] ") and told.endswith(f"; {ONLY_YOLO}")
    keys = told.removeprefix("Allow it: [tools] ").removesuffix(f"; {ONLY_YOLO}").replace(", allow", "\nallow")
    named = tomllib.loads(keys)
    assert named == ({} if mode == "auto" else {"approval": "auto"}) | ({"allow": rules} if rules else {})
    chosen = ApprovalMode(named.get("approval", mode))
    allowlist = Allowlist(parse_rules(named.get("allow", []), ""))
    scope = PathScope(str(work), (), os.environ["PATH"])
    assert isinstance(decide_approval(chosen, *what, scope, allowlist, {}), Allow)


@pytest.mark.parametrize(
    "command",
    ["echo x > y", "rm *.txt", "a $(b)", "X=1 make", "make \u202ex", "for x in y; do z; done", "b '"],
)
def test_command_that_no_rule_allows_has_no_setting(command: str, work: Path):
    assert remedy(shell(command, work), work) == ONLY_YOLO
    call, _ = shell("npm test", work)
    assert remedy((call, Effect(EffectKind.RUN, "npm test", str(work), background=True)), work) == ONLY_YOLO


@pytest.mark.parametrize(("path", "named"), [("a.py", True), (".git/config", False), (".env", False), ("../x", False)])
def test_edit_names_the_mode_that_makes_it(path: str, named: bool, work: Path):
    real = (work / path).resolve()
    effect = Effect(EffectKind.EDIT, path, str(work), (str(real),), inside=real.is_relative_to(work))
    what = ToolCall("1", "edit_file"), effect
    told = f'Allow it: [tools] approval = "edits"; {ONLY_YOLO}' if named else ONLY_YOLO
    assert remedy(what, work) == told
    scope = PathScope(str(work), (), "")
    verdict = decide_approval(ApprovalMode.EDITS, *what, scope, Allowlist(), {})
    assert isinstance(verdict, Allow if named else AskUser)


def test_setting_of_a_tool_is_named(work: Path):
    mcp = Effect(EffectKind.RUN, "{}", setting='[mcp_servers.time] approved_tools = ["now"]')
    assert remedy((ToolCall("1", "time__now"), mcp), work) == f"Allow it: {mcp.setting}; {ONLY_YOLO}"
    key = '[tools] private_hosts = ["127.0.0.1"]'
    own = Effect(EffectKind.NETWORK, "http://127.0.0.1/", setting=key, origin="http://127.0.0.1")
    assert remedy((ToolCall("1", "web_fetch"), own), work) == f"Allow it: {key}, and --yolo."
    assert remedy((ToolCall("1", "web_fetch"), Effect(EffectKind.NETWORK, "http://x/")), work) == ONLY_YOLO
