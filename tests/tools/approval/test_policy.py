"""The policy decides by mode and effect, and a lasting approval holds for exactly one call."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikigai.core.events.messages import ToolCall
from ikigai.core.tools.approval_mode import ApprovalMode
from ikigai.tools.approval.allowlist import Allowlist
from ikigai.tools.approval.path_policy import PathScope, protection_reason
from ikigai.tools.approval.policy import (
    Allow,
    Approval,
    ApprovalLifetime,
    AskUser,
    Deny,
    Verdict,
    call_fingerprint,
    decide_approval,
    deny_unasked,
)
from ikigai.tools.base import Effect, EffectKind

ROOT = "/srv/project"
OWN = ("/home/u/.config/ikigai", "/srv/project/data/ikigai")
CALL = ToolCall("1", "tool", '{"path": "x"}')


def judged(
    mode: ApprovalMode, effect: Effect, call: ToolCall = CALL, standing: Mapping[str, Approval] | None = None
) -> Verdict:
    place = PathScope(ROOT, OWN, "/usr/bin:/bin:/srv/project/venv/bin")
    return decide_approval(mode, call, effect, place, Allowlist(), standing or {})


def effect(kind: EffectKind, *paths: str, inside: bool = True, diff: str = "") -> Effect:
    return Effect(kind, shown=" ".join(paths), directory=ROOT, paths=paths, inside=inside, diff=diff)


def named(verdict: Verdict) -> str:
    return {Allow: "runs", AskUser: "asks", Deny: "refused"}[type(verdict)]


@pytest.mark.parametrize(
    ("what", "expected"),
    [  # in the order of ApprovalMode: read-only, ask, edits, auto, yolo
        (Effect(EffectKind.NOTHING, "own log"), "runs runs runs runs runs"),
        (effect(EffectKind.READ, f"{ROOT}/src/a.py"), "runs runs runs runs runs"),
        (effect(EffectKind.READ, ROOT), "asks asks asks asks runs"),  # ikigai's own data lies below
        (effect(EffectKind.READ, f"{ROOT}/src", f"{ROOT}/docs"), "runs runs runs runs runs"),
        (effect(EffectKind.READ, "/etc/passwd", inside=False), "asks asks asks asks runs"),
        (effect(EffectKind.READ, "/etc/passwd"), "asks asks asks asks runs"),  # whatever the tool says of itself
        (effect(EffectKind.READ, f"{ROOT}2/a"), "asks asks asks asks runs"),
        (effect(EffectKind.READ, f"{ROOT}/.env"), "asks asks asks asks runs"),
        (effect(EffectKind.READ, f"{ROOT}/data/ikigai/keys.json"), "asks asks asks asks runs"),
        (effect(EffectKind.READ), "asks asks asks asks runs"),
        (effect(EffectKind.EDIT, f"{ROOT}/src/a.py"), "refused asks runs runs runs"),
        (effect(EffectKind.EDIT, f"{ROOT}/src/a.py", inside=False), "refused asks asks asks runs"),
        (effect(EffectKind.EDIT, f"{ROOT}/src/a.py", "/tmp/b"), "refused asks asks asks runs"),
        (effect(EffectKind.EDIT), "refused asks asks asks runs"),
        (effect(EffectKind.NETWORK, "https://example.com"), "refused asks asks asks runs"),
        (effect(EffectKind.RUN, "ls"), "refused asks asks asks runs"),
    ],
)
def test_table_of_modes(what: Effect, expected: str):
    assert " ".join(named(judged(mode, what)) for mode in ApprovalMode) == expected


SKILLS = ("/home/u/.agents/skills/pdf", "/home/u/.config/ikigai/skills/own", "/home/u")
"""Folders that are readable; the last one holds ikigai's own files."""


@pytest.mark.parametrize(
    ("kind", "paths", "expected"),
    [
        (EffectKind.READ, ("/home/u/.agents/skills/pdf/references/a.md",), "runs"),
        (EffectKind.READ, ("/home/u/.agents/skills/pdf", f"{ROOT}/a.py"), "runs"),
        (EffectKind.READ, ("/home/u/.config/ikigai/skills/own/SKILL.md",), "runs"),
        (EffectKind.READ, ("/home/u/.agents/skills/pdf/.env",), "asks"),
        (EffectKind.READ, ("/home/u/.agents/skills/pdf/a.md", "/etc/passwd"), "asks"),
        (EffectKind.READ, ("/home/v/.agents/skills/pdf/a.md",), "asks"),
        (EffectKind.READ, ("/home/u/.config/ikigai/keys.json",), "asks"),
        (EffectKind.READ, ("/home/u/.config/ikigai/config.toml",), "asks"),
        (EffectKind.READ, ("/home/u/.config/ikigai/skills",), "asks"),
        (EffectKind.EDIT, ("/home/u/.agents/skills/pdf/SKILL.md",), "asks"),
        (EffectKind.EDIT, ("/home/u/.config/ikigai/skills/own/SKILL.md",), "asks"),
    ],
)
def test_files_of_skills_are_read_and_not_changed_without_a_question(
    kind: EffectKind, paths: tuple[str, ...], expected: str
) -> None:
    place = PathScope(ROOT, OWN, "/usr/bin:/bin", lambda: SKILLS)
    verdict = decide_approval(ApprovalMode.EDITS, CALL, effect(kind, *paths, inside=False), place, Allowlist(), {})
    assert named(verdict) == expected


def test_skill_in_the_working_directory_is_not_changed_without_a_question():
    place = PathScope(ROOT, OWN, "/bin", lambda: (f"{ROOT}/plugin",))
    for path, expected in ((f"{ROOT}/plugin/bin/server", "asks"), (f"{ROOT}/plugins", "runs")):
        verdict = decide_approval(ApprovalMode.EDITS, CALL, effect(EffectKind.EDIT, path), place, Allowlist(), {})
        assert named(verdict) == expected


def test_script_of_a_skill_asks_in_every_mode_but_yolo():
    place, run = PathScope(ROOT, OWN, "/bin", lambda: SKILLS), ToolCall("1", "shell", "{}")
    what = effect(EffectKind.RUN, "sh /home/u/.agents/skills/pdf/x.sh")
    for mode in (ApprovalMode.ASK, ApprovalMode.EDITS, ApprovalMode.AUTO):
        assert isinstance(decide_approval(mode, run, what, place, Allowlist(), {}), AskUser)


@pytest.mark.parametrize(
    "path",
    [
        *(
            "src/.git/hooks/pre-commit",
            ".git/config",
            ".GIT/config",
            "bare.git/config",
            ".gitmodules",
            ".gitattributes",
        ),
        *(".ikigai/tools/x", ".ikigai", "sub/.ikigai/config.toml", "data/ikigai/log", "AGENTS.md", "docs/Claude.md"),
        *(".bashrc", ".profile", "home/.zshrc", ".inputrc", ".envrc", ".gitconfig", ".ssh/authorized_keys", ".vimrc"),
        *(".github/workflows/a.yml", ".gitlab-ci.yml", "Jenkinsfile", ".vscode/tasks.json", ".husky/pre-commit"),
        *(
            ".forgejo/workflows/a.yml",
            ".drone.yml",
            ".woodpecker.yml",
            ".woodpecker/test.yml",
            "bitbucket-pipelines.yml",
        ),
        *(
            "appveyor.yml",
            "cloudbuild.yaml",
            "kept/HEAD",
            ".venv/lib/python3.11/site-packages/a.pth",
            ".venv/bin/python",
        ),
        *("node_modules/.bin/eslint", "src/sitecustomize.py", ".nvim.lua", ".dir-locals.el", ".emacs.d/init.el"),
        *(".pdbrc", ".Rprofile", ".cargo/config.toml", ".mise.toml", "mise.toml", ".pnpmfile.cjs", "GEMINI.md"),
        *(".cursorrules", ".windsurfrules", ".github/copilot-instructions.md", ".clinerules", "pyvenv.cfg"),
        *(".env", "conf/prod.env", "id_rsa", "secrets.yaml", ".npmrc", "venv/bin/ls", ".mcp.json", ".ripgreprc"),
    ],
)
def test_protected_file_is_never_edited_without_approval(path: str):
    for mode in (ApprovalMode.ASK, ApprovalMode.EDITS, ApprovalMode.AUTO):
        asked = judged(mode, effect(EffectKind.EDIT, f"{ROOT}/{path}"))
        assert isinstance(asked, AskUser) and asked.why[0].startswith("Be careful: ")


def test_file_with_a_second_name_is_never_edited_unasked(tmp_path: Path):
    (work := tmp_path / "work").mkdir()
    place, file = PathScope(str(work), (), "/usr/bin"), work / "a.py"
    file.write_text("1\n")
    assert protection_reason(place, str(file)) == "" and protection_reason(place, str(work)) == ""
    (tmp_path / "outside").hardlink_to(file)
    assert "2 names (hard links)" in protection_reason(place, str(file))


def test_config_beside_head_is_never_edited_unasked(tmp_path: Path):
    place, file = PathScope(str(tmp_path), (), "/usr/bin"), tmp_path / "bare" / "config"
    file.parent.mkdir()
    assert protection_reason(place, str(file)) == ""
    (file.parent / "HEAD").write_text("ref: refs/heads/main\n")
    assert "git treats" in protection_reason(place, str(file))


@pytest.mark.parametrize(
    "path",
    [
        "src/head.py",
        "hooks/config",
        "docs/bin/a",
        ".cargo/audit.toml",
        "src/git.py",
        "github/a.yml",
        "config.toml",
        "docs/agents.txt",
        ".gitignore",
        ".env.example",
        "env.py",
        "k.pub",
    ],
)
def test_ordinary_files_are_edited(path: str):
    assert isinstance(judged(ApprovalMode.EDITS, effect(EffectKind.EDIT, f"{ROOT}/{path}")), Allow)


def test_allow_list_is_for_the_shell_tool_in_auto_alone(tmp_path: Path):
    place = PathScope(str(tmp_path.resolve()), (), "/usr/bin:/bin")
    shell, other = ToolCall("1", "shell", '{"command": "ls -l"}'), ToolCall("1", "process_write", '{"text": "ls -l"}')
    what = Effect(EffectKind.RUN, "ls -l | wc -l", str(tmp_path.resolve()))

    def of(mode: ApprovalMode, call: ToolCall, what: Effect = what) -> Verdict:
        return decide_approval(mode, call, what, place, Allowlist(), {})

    assert of(ApprovalMode.AUTO, shell) == Allow("allow-list: ls, wc")
    assert [named(of(mode, shell)) for mode in ApprovalMode] == ["refused", "asks", "asks", "runs", "runs"]
    assert of(ApprovalMode.AUTO, other) == AskUser()
    refused = of(ApprovalMode.AUTO, shell, Effect(EffectKind.RUN, "ls; rm x", str(tmp_path.resolve())))
    assert refused == AskUser(("Not allowed by the allow-list: rm is not in the allow-list.",))


def test_hidden_characters_are_said_and_never_pass():
    command = judged(ApprovalMode.AUTO, Effect(EffectKind.RUN, "ls \u202e -l", ROOT), ToolCall("1", "shell", "{}"))
    assert isinstance(command, AskUser)
    assert command.why[0] == "Hidden characters: U+202E RIGHT-TO-LEFT OVERRIDE."
    assert isinstance(judged(ApprovalMode.EDITS, effect(EffectKind.EDIT, f"{ROOT}/a\u200bb")), AskUser)
    diff = "--- a\n+++ b\n-if admin:\n+if admin\u2066:\n"
    hiding = judged(ApprovalMode.EDITS, effect(EffectKind.EDIT, f"{ROOT}/a", diff=diff))
    assert hiding == AskUser(("The new text has hidden characters. Hidden characters: U+2066 LEFT-TO-RIGHT ISOLATE.",))
    back_door = "+const { timeout,\u3164} = q;\n"
    filler = AskUser(("The new text has hidden characters. Hidden characters: U+3164 HANGUL FILLER.",))
    assert [
        judged(mode, effect(EffectKind.EDIT, f"{ROOT}/a", diff=back_door))
        for mode in (ApprovalMode.EDITS, ApprovalMode.AUTO)
    ] == [filler] * 2
    for harmless in ("-a\u2066\n+b\u2066\n", "+日本 é 👩\u200d💻 می\u200cخواهم\r\n", "-\u202e\n"):
        assert isinstance(judged(ApprovalMode.EDITS, effect(EffectKind.EDIT, f"{ROOT}/a", diff=harmless)), Allow), (
            harmless
        )


def test_lasting_approval_holds_for_exactly_this_call():
    what = effect(EffectKind.RUN, "rm x")
    standing = {call_fingerprint(CALL, what): Approval(ApprovalLifetime.ALWAYS)}
    for mode in (ApprovalMode.ASK, ApprovalMode.EDITS, ApprovalMode.AUTO):
        assert judged(mode, what, standing=standing) == Allow("approved for always")
    assert isinstance(judged(ApprovalMode.READ_ONLY, what, standing=standing), Deny)
    assert (
        judged(ApprovalMode.ASK, what, standing={call_fingerprint(CALL, what): Approval(ApprovalLifetime.ONCE)})
        == AskUser()
    )
    secret = effect(EffectKind.READ, f"{ROOT}/.env")
    assert isinstance(
        judged(
            ApprovalMode.READ_ONLY,
            secret,
            standing={call_fingerprint(CALL, secret): Approval(ApprovalLifetime.SESSION)},
        ),
        Allow,
    )
    calls = [
        CALL,
        ToolCall("1", "tool", '{"path": "y"}'),
        ToolCall("1", "tool", '{"path": "x", "more": 1}'),
        ToolCall("1", "tools", '{"path": "x"}'),
        ToolCall("1", "tool", "{}", '{"path": '),
        ToolCall("1", "tool", "{}"),
        ToolCall("1", "tool", '{"path": ["x"]}'),
    ]
    touches = [
        effect(EffectKind.EDIT, f"{ROOT}/x"),
        effect(EffectKind.EDIT, f"{ROOT}/y"),
        effect(EffectKind.READ, f"{ROOT}/x"),
        effect(EffectKind.EDIT, f"{ROOT}/x", f"{ROOT}/y"),
        Effect(EffectKind.EDIT, "x", "/elsewhere", (f"{ROOT}/x",)),
        effect(EffectKind.EDIT, "/\udcff"),
        effect(EffectKind.EDIT, "/\udcfe"),
    ]
    prints = {call_fingerprint(*each) for each in itertools.product(calls, touches)}
    assert len(prints) == len(calls) * len(touches) and all(len(each) == 64 for each in prints)


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=5))
def test_order_of_keys_and_blanks_make_no_other_call(arguments: dict[str, int | str]):
    import json

    what = effect(EffectKind.EDIT, f"{ROOT}/x")
    written = [
        json.dumps(arguments),
        json.dumps(dict(reversed(arguments.items())), indent=3, ensure_ascii=False),
    ]
    first, second = (call_fingerprint(ToolCall(str(n), "tool", text), what) for n, text in enumerate(written))
    assert first == second


def test_model_gets_the_reason_when_the_user_cannot_be_asked():
    told = deny_unasked(AskUser(("It is outside the working directory.",)))
    assert told.why == (
        "This needs the user's approval, and the user cannot be asked here. It is outside the working directory."
    )
    assert deny_unasked(AskUser()).why.endswith("here.")
