"""The policy: which mode lets which call run, what asks whatever the mode, and what a lasting approval holds for."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikigai.core.messages import ToolCall
from ikigai.tools.approval.allowlist import Allowlist
from ikigai.tools.approval.path_policy import Place, protected
from ikigai.tools.approval.policy import (
    Allow,
    Approval,
    Ask,
    Deny,
    Lasting,
    Mode,
    Verdict,
    fingerprint,
    following,
    unasked,
    verdict,
)
from ikigai.tools.base import Kind, Touch

ROOT = "/srv/project"
OWN = ("/home/u/.config/ikigai", "/srv/project/data/ikigai")
CALL = ToolCall("1", "tool", '{"path": "x"}')


def judged(mode: Mode, touch: Touch, call: ToolCall = CALL, standing: Mapping[str, Approval] | None = None) -> Verdict:
    place = Place(ROOT, OWN, "/usr/bin:/bin:/srv/project/venv/bin")
    return verdict(mode, call, touch, place, Allowlist(), standing or {})


def touch(kind: Kind, *paths: str, inside: bool = True, diff: str = "") -> Touch:
    return Touch(kind, shown=" ".join(paths), directory=ROOT, paths=paths, inside=inside, diff=diff)


def named(verdict: Verdict) -> str:
    return {Allow: "runs", Ask: "asks", Deny: "refused"}[type(verdict)]


@pytest.mark.parametrize(
    ("what", "expected"),
    [  # in the order of Mode: read-only, ask, edits, auto, yolo
        (Touch(Kind.NOTHING, "own log"), "runs runs runs runs runs"),
        (touch(Kind.READ, f"{ROOT}/src/a.py"), "runs runs runs runs runs"),
        (touch(Kind.READ, ROOT), "asks asks asks asks runs"),  # ikigai's own data lies below
        (touch(Kind.READ, f"{ROOT}/src", f"{ROOT}/docs"), "runs runs runs runs runs"),
        (touch(Kind.READ, "/etc/passwd", inside=False), "asks asks asks asks runs"),
        (touch(Kind.READ, "/etc/passwd"), "asks asks asks asks runs"),  # whatever the tool says of itself
        (touch(Kind.READ, f"{ROOT}2/a"), "asks asks asks asks runs"),
        (touch(Kind.READ, f"{ROOT}/.env"), "asks asks asks asks runs"),
        (touch(Kind.READ, f"{ROOT}/data/ikigai/keys.json"), "asks asks asks asks runs"),
        (touch(Kind.READ), "asks asks asks asks runs"),
        (touch(Kind.EDIT, f"{ROOT}/src/a.py"), "refused asks runs runs runs"),
        (touch(Kind.EDIT, f"{ROOT}/src/a.py", inside=False), "refused asks asks asks runs"),
        (touch(Kind.EDIT, f"{ROOT}/src/a.py", "/tmp/b"), "refused asks asks asks runs"),
        (touch(Kind.EDIT), "refused asks asks asks runs"),
        (touch(Kind.NETWORK, "https://example.com"), "refused asks asks asks runs"),
        (touch(Kind.RUN, "ls"), "refused asks asks asks runs"),
    ],
)
def test_the_table_of_modes(what: Touch, expected: str):
    assert " ".join(named(judged(mode, what)) for mode in Mode) == expected


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
def test_what_other_programs_run_or_obey_is_never_edited_unasked(path: str):
    for mode in (Mode.ASK, Mode.EDITS, Mode.AUTO):
        asked = judged(mode, touch(Kind.EDIT, f"{ROOT}/{path}"))
        assert isinstance(asked, Ask) and asked.why[0].startswith("Be careful: ")


def test_config_beside_head_is_never_edited_unasked(tmp_path: Path):
    place, file = Place(str(tmp_path), (), "/usr/bin"), tmp_path / "bare" / "config"
    file.parent.mkdir()
    assert protected(place, str(file)) == ""
    (file.parent / "HEAD").write_text("ref: refs/heads/main\n")
    assert "git takes" in protected(place, str(file))


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
    assert isinstance(judged(Mode.EDITS, touch(Kind.EDIT, f"{ROOT}/{path}")), Allow)


def test_the_allow_list_is_for_the_shell_tool_in_auto_alone(tmp_path: Path):
    place = Place(str(tmp_path.resolve()), (), "/usr/bin:/bin")
    shell, other = ToolCall("1", "shell", '{"command": "ls -l"}'), ToolCall("1", "process_write", '{"text": "ls -l"}')
    what = Touch(Kind.RUN, "ls -l | wc -l", str(tmp_path.resolve()))

    def of(mode: Mode, call: ToolCall, what: Touch = what) -> Verdict:
        return verdict(mode, call, what, place, Allowlist(), {})

    assert of(Mode.AUTO, shell) == Allow("allow-list: ls, wc")
    assert [named(of(mode, shell)) for mode in Mode] == ["refused", "asks", "asks", "runs", "runs"]
    assert of(Mode.AUTO, other) == Ask()
    refused = of(Mode.AUTO, shell, Touch(Kind.RUN, "ls; rm x", str(tmp_path.resolve())))
    assert refused == Ask(("Not by the allow-list: rm is not in the allow-list.",))


def test_hidden_characters_are_said_and_never_pass():
    command = judged(Mode.AUTO, Touch(Kind.RUN, "ls \u202e -l", ROOT), ToolCall("1", "shell", "{}"))
    assert isinstance(command, Ask)
    assert command.why[0] == "Hidden characters: U+202E RIGHT-TO-LEFT OVERRIDE."
    assert isinstance(judged(Mode.EDITS, touch(Kind.EDIT, f"{ROOT}/a\u200bb")), Ask)
    diff = "--- a\n+++ b\n-if admin:\n+if admin\u2066:\n"
    hiding = judged(Mode.EDITS, touch(Kind.EDIT, f"{ROOT}/a", diff=diff))
    assert hiding == Ask(("The new text hides something. Hidden characters: U+2066 LEFT-TO-RIGHT ISOLATE.",))
    back_door = "+const { timeout,\u3164} = q;\n"
    filler = Ask(("The new text hides something. Hidden characters: U+3164 HANGUL FILLER.",))
    assert [judged(mode, touch(Kind.EDIT, f"{ROOT}/a", diff=back_door)) for mode in (Mode.EDITS, Mode.AUTO)] == [
        filler
    ] * 2
    for harmless in ("-a\u2066\n+b\u2066\n", "+日本 é 👩\u200d💻 می\u200cخواهم\r\n", "-\u202e\n"):
        assert isinstance(judged(Mode.EDITS, touch(Kind.EDIT, f"{ROOT}/a", diff=harmless)), Allow), harmless


def test_a_lasting_approval_holds_for_exactly_this_call():
    what = touch(Kind.RUN, "rm x")
    standing = {fingerprint(CALL, what): Approval(Lasting.ALWAYS)}
    for mode in (Mode.ASK, Mode.EDITS, Mode.AUTO):
        assert judged(mode, what, standing=standing) == Allow("approved for always")
    assert isinstance(judged(Mode.READ_ONLY, what, standing=standing), Deny)
    assert judged(Mode.ASK, what, standing={fingerprint(CALL, what): Approval(Lasting.ONCE)}) == Ask()
    secret = touch(Kind.READ, f"{ROOT}/.env")
    assert isinstance(
        judged(Mode.READ_ONLY, secret, standing={fingerprint(CALL, secret): Approval(Lasting.SESSION)}), Allow
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
        touch(Kind.EDIT, f"{ROOT}/x"),
        touch(Kind.EDIT, f"{ROOT}/y"),
        touch(Kind.READ, f"{ROOT}/x"),
        touch(Kind.EDIT, f"{ROOT}/x", f"{ROOT}/y"),
        Touch(Kind.EDIT, "x", "/elsewhere", (f"{ROOT}/x",)),
        touch(Kind.EDIT, "/\udcff"),
        touch(Kind.EDIT, "/\udcfe"),
    ]
    prints = {fingerprint(*each) for each in itertools.product(calls, touches)}
    assert len(prints) == len(calls) * len(touches) and all(len(each) == 64 for each in prints)


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=5))
def test_the_order_of_keys_and_blanks_make_no_other_call(arguments: dict[str, int | str]):
    import json

    what = touch(Kind.EDIT, f"{ROOT}/x")
    written = [
        json.dumps(arguments),
        json.dumps(dict(reversed(arguments.items())), indent=3, ensure_ascii=False),
    ]
    first, second = (fingerprint(ToolCall(str(n), "tool", text), what) for n, text in enumerate(written))
    assert first == second


def test_shift_tab_never_leads_into_yolo():
    seen, mode = [], Mode.ASK
    for _ in range(4):
        mode = following(mode)
        seen.append(mode)
    assert seen == [Mode.EDITS, Mode.AUTO, Mode.READ_ONLY, Mode.ASK]
    assert following(Mode.YOLO) == Mode.ASK


def test_where_nobody_can_be_asked_the_model_is_told():
    told = unasked(Ask(("It is outside the working directory.",)))
    assert told.why == (
        "This needs the user's approval, and nobody can be asked here. It is outside the working directory."
    )
    assert unasked(Ask()).why.endswith("here.")
