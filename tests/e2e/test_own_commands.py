"""Tests of the user's own commands in the running program: files whose text is sent."""

from pathlib import Path

from tests.e2e.account import Account
from tests.e2e.test_trust import answer


def test_own_commands_are_listed_completed_and_sent(account: Account):
    mine = account.home / ".config" / "ikigai" / "commands"
    mine.mkdir(parents=True)
    (mine / "review.md").write_text("---\ndescription: Review a file\nargument-hint: FILE\n---\n/clear $1 strictly\n")
    theirs = _work(account) / ".ikigai" / "commands"
    theirs.mkdir(parents=True)
    (theirs / "deploy.md").write_text("How is this deployed?")
    with account.terminal("-m", "scripted/echo", cwd=_work(account)) as program:
        answer(program, "y")
        program.ready().say("/commands")
        program.wait_for("/review FILE  Review a file")
        program.wait_for("/deploy       How is this deployed?")
        program.type("/rev")
        program.wait(lambda: program.text().count("/review FILE") == 2, "the menu")
        program.type("iew a.py\r")
        program.wait_for("❯ /clear a.py strictly")  # sent, though it looks like a command
        program.wait_for("● /clear a.py strictly")
        program.say("/deploy to staging")
        program.wait_for("● How is this deployed?")
        (theirs / "deploy.md").write_text("changed")
        program.say("/deploy")
        program.wait_for("changed since the folder was trusted")
        program.leave()
    printed = account.run("-m", "scripted/echo", "-p", "/review b.py")
    assert printed.stdout == "/clear b.py strictly\n"
    (mine / "review.md").write_bytes(b"\xff")
    refused = account.run("-m", "scripted/echo", "-p", "/review b.py")
    assert refused.returncode == 2 and "not UTF-8 text" in refused.stderr


def _work(account: Account) -> Path:
    folder = account.home / "work"
    folder.mkdir(exist_ok=True)
    return folder
