"""Tests of the input: files behind an @, earlier messages of other folders, a draft that outlives a kill."""

import os
import time
from pathlib import Path

import psycopg

from tests.e2e.program import Program


def test_files_searching_and_a_draft_that_outlives_a_kill(tmp_path: Path, dsn: str):
    env = {"IKIGAI_DATABASE_URL": dsn}
    two = tmp_path / "two"
    (two / "src").mkdir(parents=True)
    (two / "src" / "a main.py").write_text("")
    with psycopg.connect(dsn) as connection:
        agent = "insert into agents (id, name, directory) values (gen_random_uuid(), 'amber-fox', %s) returning id"
        ((id,),) = connection.execute(agent, (f"{tmp_path}/one",)).fetchall()
        said = "insert into messages (event_id, agent_id, seq, kind, content, data)"
        connection.execute(said + " values (gen_random_uuid(), %s, 1, 'user', 'alpha beta of one', '{}')", (id,))
    script = tmp_path / "script.json"
    script.write_text('[["Half a reply.", {"do": "hang"}]]')
    with Program(tmp_path, "--new", "-m", f"scripted/{script}", cwd=two, env=env, columns=100) as program:
        program.ready().type("see @main")
        program.wait_for('\n  @"src/a main.py"\n')
        program.type("\t")
        program.wait_for('❯ see @"src/a main.py"\n')
        program.keeps('see @"src/a main.py"')
        program.type("\x03")
        program.keeps()
        program.say("go")
        program.wait_for("Half a reply.")
        program.type("\x12one alp")
        program.wait(lambda: "  amber-fox · ~/one · just now" in program.text(), "where it was sent")
        program.type("\r")
        program.wait_for_input("alpha beta of one")
        program.type(" and more")
        whole = "alpha beta of one and more"
        program.keeps(whole)
        with psycopg.connect(dsn, autocommit=True) as log:
            drafts = "select text from drafts"
            program.wait(lambda: log.execute(drafts).fetchall() == [("Half a reply.",)], "the reply's draft")
        program.kill()
        (draft,) = (tmp_path / ".local" / "state" / "ikigai").glob("unsent-*")
    with Program(tmp_path, "-m", "scripted/echo", cwd=two, env=env, columns=100) as program:
        program.wait_for_input(whole)
        program.wait_for("The unsent input of the last run is restored.")
        words = program.text()
        assert (
            words.index("Half a reply.")
            < words.index("cut off: ikigai was killed here")
            < words.index("The unsent input of the last run")
        )
        written = time.time()
        program.type("\r")
        program.wait_for(f"● {whole}")
        program.keeps()
        program.leave()
    draft.write_text(f"{whole}\nnot sent")  # as a kill leaves it between the message and its draft's end
    os.utime(draft, (written, written))
    with Program(tmp_path, "-m", "scripted/echo", cwd=two, env=env, columns=100) as program:
        program.ready().wait_for_input("not sent")
        program.type("\r")
        program.wait_for("● not sent")
        program.leave()
