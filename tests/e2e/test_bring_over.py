"""Tests of the way from an older version's database: its program exports, this one imports.

The files of the ordinary test were written by the program of commit 28df980b, as `OldVersion.write_history` says.
IKIGAI_OLD_CHECKOUT names a checkout of it for the long test, which installs it; with IKIGAI_RENEW_EXPORTS that test
stores its exports anew.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from ikigai.store.schema.schema import SCHEMA_VERSION
from tests import GOLDEN, ROOT
from tests.e2e.account import Account, Wire, refused
from tests.e2e.old_version import ANSWER, QUESTION, OldVersion
from tests.e2e.program import environment

EXPORTS = GOLDEN / "old_exports"
SCRIPT = ROOT / "docs" / "operations" / "bring-over.sh"
TREE = [
    ("árvíz", None, "Wood."),
    ("ág", "árvíz", "A leaf."),
    ("levél", "ág", "An end."),
    ("stored", None, "Good day."),
    ("gone", "stored", "Good night."),
]
"""The agents in the order of the list, the parent of each, and its last words."""


def listed(account: Account) -> list[dict[str, object]]:
    return json.loads(account.run("agents", "list", "--all", "--json").stdout)["agents"]


def events(file: Path) -> list[dict[str, object]]:
    """Return the events of an export without what another log says otherwise: ids, and what names some."""
    lines = [json.loads(line) for line in file.read_text().splitlines()[1:-1]]
    return [{key: line.get(key) for key in ("agent", "seq", "at", "kind", "content")} for line in lines]


def check_brought_over(account: Account, exports: dict[str, Path]) -> None:
    """Check that all is there: the tree, each event with its time, the usage once, and what a model would get."""
    assert sorted((each["agent"], each["parent"], each["last_words"]) for each in listed(account)) == sorted(
        TREE, key=lambda row: row[0]
    )
    for name, file in exports.items():
        again = account.home / f"{name}-again.jsonl"
        assert account.run("history", "export", "--agent", name, "-o", str(again)).returncode == 0
        assert events(again) == events(file)
    usage = json.loads(account.run("usage", "--json").stdout)
    assert usage["total"]["requests"] == 9 and round(usage["total"]["cost"], 9) == round(9 * 0.000105, 9)
    done = account.run("-m", "wire/x", "-r", "levél", "-p", "What now?", WIRE_KEY="a-key-of-the-test")
    assert done.returncode == 0, done


def check_request(wire: Wire) -> None:
    """Check the messages of the last request: what was rewound is not among them, what the fork shares is."""
    texts = [str(message.get("content")) for message in wire.messages() if message["role"] != "system"]
    assert texts[0] == QUESTION and texts[1] == ANSWER and texts[-1] == "What now?"
    said = " ".join(texts)
    assert "On the branch." in said and "On the leaf." in said and "kút\n[exit status 0]" in said
    assert "A wrong way." not in said and "Later, on the trunk." not in said


def test_exports_of_an_older_version_are_imported_with_their_forks(account: Account, wire: Wire):
    exports = {file.stem: file for file in sorted(EXPORTS.glob("*.jsonl"))}
    assert set(exports) == {name for name, _, _ in TREE}
    made = account.run("history", "import", *map(str, exports.values()))
    assert made.returncode == 0, made
    assert set(made.stdout.splitlines()) >= {
        "árvíz is new and has 24 events.",
        "ág is new, a fork of árvíz, and has 5 events of its own.",
        "levél is new, a fork of ág, and has 5 events of its own.",
        "gone is new, a fork of stored, and has 6 events of its own.",
    }
    check_brought_over(account, exports)
    check_request(wire)


def test_import_of_several_files_stores_all_or_nothing(account: Account):
    good, bad = str(EXPORTS / "árvíz.jsonl"), account.home / "bad.jsonl"
    bad.write_bytes((EXPORTS / "ág.jsonl").read_bytes().replace(b"A leaf.", b"A twig."))
    refused(account.run("history", "import", good, str(bad)), 1, "bad.jsonl is damaged or was changed")
    differs = bad.read_text().replace("A twig.", "A leaf.").replace("It said kút.", "It said tó.").splitlines()
    head, end = json.loads(differs[0]), json.loads(differs[-1])
    bad.write_text("\n".join([json.dumps({k: v for k, v in head.items() if k != "checksum"}), *differs[1:-1],
                              json.dumps({"count": end["count"]})]) + "\n")  # fmt: skip
    why = "differs from another one in an event that both have"
    refused(account.run("history", "import", str(bad), good), 1, why)
    for arguments in ((good, str(bad), "--name", "one"), (good, "-")):
        refused(account.run("history", "import", *arguments), 2, "Of several files")
    assert listed(account) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("-m", "scripted/echo", "-p", "hi"),
        ("agents", "list"),
        ("history", "import", str(EXPORTS / "árvíz.jsonl")),
        ("history", "export"),
        ("usage",),
        ("db", "status"),
        ("db", "migrate"),
        ("db", "purge", "--ids", "1", "--yes"),
    ],
    ids=" ".join,
)
def test_older_database_is_refused_and_the_way_over_is_named(
    tmp_path: Path, empty_dsn: str, arguments: tuple[str, ...]
):
    with psycopg.connect(empty_dsn) as other:
        other.execute((GOLDEN / "old_schema.sql").read_bytes())
    refused(
        Account(tmp_path, empty_dsn).run(*arguments),
        2,
        f"has schema 33, and this ikigai needs schema {SCHEMA_VERSION}.",
        "Export its conversations with the ikigai that wrote them and import them here: docs/operations/install.md",
    )
    with psycopg.connect(empty_dsn) as other:
        assert other.execute("select count(*) from ikigai.ikigai_migrations").fetchall() == [(33,)]


def test_script_without_its_arguments_says_how_it_is_used(tmp_path: Path):
    for arguments in ([], ["old"]):
        ended = subprocess.run(["bash", str(SCRIPT), *arguments], cwd=tmp_path, capture_output=True, text=True)
        assert ended.returncode != 0 and "usage: bring-over.sh OLD FOLDER" in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_script_takes_no_name_of_a_package_for_a_checkout(tmp_path: Path):
    ended = subprocess.run(["bash", str(SCRIPT), "ikigai-old", "to"], cwd=tmp_path, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (1, "There is no file or folder ikigai-old.\n")
    assert list(tmp_path.iterdir()) == []


def test_script_puts_agents_into_lists_once(account: Account):
    """The folder is as a run leaves it that ended behind the import; its name has blanks and quotes."""
    folder = account.home / "brought 'over' \"here\""
    (folder / "old/bin").mkdir(parents=True)
    (folder / "old/bin/python").symlink_to(sys.executable)
    for step in ("install", "export", "move", "import"):
        (folder / f"{step}.done").touch()
    (folder / "status.json").write_text('{"schema": "ikigai"}')
    assert account.run("history", "import", str(EXPORTS / "árvíz.jsonl"), "--name", "it's").returncode == 0
    old = {"agent": "it's", "last_used_at": "2026-01-02T03:04:05Z", "archived": True, "killed": False}
    (folder / "agents.json").write_text(json.dumps({"agents": [old]}))
    command = ["bash", str(SCRIPT), str(ROOT), str(folder)]
    env = environment(account.home, **account.environment(IKIGAI=f"{sys.executable} -m ikigai"))
    for states in ([(True, "2026-01-02T03:04:05Z")], []):
        ended = subprocess.run(command, env=env, cwd=account.home, capture_output=True, text=True)
        assert ended.returncode == 0 and "ikigai_before" in ended.stdout, ended
        shown = [(each["archived"], each["last_used_at"]) for each in listed(account) if each["archived"]]
        assert shown == states, "what was revived stays so"
        account.run("agents", "revive", "it's")


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.skipif("IKIGAI_OLD_CHECKOUT" not in os.environ, reason="IKIGAI_OLD_CHECKOUT names no checkout of 28df980b")
def test_script_brings_over_a_database_that_the_old_program_wrote(tmp_path: Path, empty_dsn: str):
    checkout = Path(os.environ["IKIGAI_OLD_CHECKOUT"])
    account, folder = Account(tmp_path, empty_dsn), tmp_path / "moved"
    with Wire().running() as wire:
        account.configure(f'[providers.wire]\nbase_url = "{wire.server.base_url}"\napi_key_env = "WIRE_KEY"\n')
        OldVersion(checkout, account, wire).write_history()
        refused(account.run("agents"), 2, "bring-over.sh")
        before = environment(tmp_path, **account.environment(IKIGAI=f"{sys.executable} -m ikigai"))
        for _ in range(2):  # the second run finds all done
            moved = subprocess.run(
                ["bash", str(SCRIPT), str(checkout), str(folder)],
                env=before,
                cwd=tmp_path,
                capture_output=True,
                text=True,
            )
            assert moved.returncode == 0, moved
            assert "The old tables are in the schema ikigai_before." in moved.stdout
        names = {each["agent_id"]: each["agent"] for each in json.loads((folder / "agents.json").read_text())["agents"]}
        numbers = [line.split(maxsplit=2) for line in (folder / "agents.txt").read_text().splitlines()]
        exports = {names[id]: folder / f"{number}.jsonl" for number, id, _ in numbers}
        check_brought_over(account, exports)
        check_request(wire)
    states = {each["agent"]: (each["archived"], each["killed"]) for each in listed(account)}
    assert states["stored"] == (True, False) and states["gone"] == (True, True)
    assert not any(states["árvíz"]) and not any(states["levél"])
    if os.environ.get("IKIGAI_RENEW_EXPORTS"):
        for name, file in exports.items():
            shutil.copyfile(file, EXPORTS / f"{name}.jsonl")
