"""Tests of condensing at the terminal: its display, and the state after a kill in the middle of it."""

import json
import signal
from pathlib import Path

import psycopg

from tests.e2e.account import figures_of
from tests.e2e.program import Program, run
from tests.support.invariants import check

CONFIG = """
[context]
condense_model = "scripted/{script}"
summarise_on_clear = true
"""


def test_condensed_killed_taken_back_and_cleared(tmp_path: Path, dsn: str):
    script, summaries = tmp_path / "script.json", tmp_path / "summaries.json"
    script.write_text(json.dumps([f"Answer {n}. {'x' * 600}" for n in range(5)]))
    summaries.write_text(json.dumps(["The user wants ducks.", [{"do": "hang"}]]))
    (tmp_path / ".config/ikigai").mkdir(parents=True)
    (tmp_path / ".config/ikigai/config.toml").write_text(CONFIG.format(script=summaries))
    env = {"IKIGAI_DATABASE_URL": dsn}
    with Program(tmp_path, "-m", f"scripted/{script}", env=env, columns=100) as program:
        program.wait_for(" · ctx")
        for n in range(5):
            program.say(f"question {n}")
            program.wait_for(f"Answer {n}.")
            program.wait(lambda: "Esc stops" not in "\n".join(program.lines()), "the end of the turn")
        program.say("/condense the ducks")
        program.wait_for("/summary shows it, /undo undoes it.")
        program.wait_for('3 turns condensed · context begins: "question 3"')
        program.wait_for("3 condensed")  # in the status line
        program.say("/summary")
        program.wait_for("The user wants ducks.")
        program.say("/context")
        program.wait_for("summary  ")
        program.say("/undo")
        program.wait_for("Undid the condense. /redo does it again.")
        program.say("/condense")
        program.wait(lambda: program.text().count("in the background") == 2, "the second one to begin")
        program.keeps()
        program.kill()
        assert program.ended() == -signal.SIGKILL
    check(dsn)
    with psycopg.connect(dsn) as connection:
        kinds = [kind for (kind,) in connection.execute("select kind from messages order by id")]
        (purpose,) = connection.execute("select data ->> 'purpose' from messages where data ? 'purpose'").fetchone()  # type: ignore[misc]
    assert kinds.count("summary") == 1 and kinds[-1] == "undo" and purpose == "summary", "nothing is left of it"
    summaries.write_text(json.dumps(["They spoke of ducks."]))
    with Program(tmp_path, "-m", "scripted/echo", env=env, columns=100) as program:
        program.wait_for(" · ctx")
        assert "condensed ·" not in program.lines()[-1]
        program.say("/clear")
        program.wait_for("What was cleared is summarised: 5 turns")
        program.leave()
    shown = run(tmp_path, "-c", "-p", "/summary", **env)
    assert "No summary yet." in shown.stdout and "5 turns: They spoke of ducks." in shown.stdout
    figures = figures_of(run(tmp_path, "-c", "-p", "/summary", "--output-format", "json", **env))
    assert figures["in_force"] is None and figures["cleared"][0]["text"] == "They spoke of ducks."
    found = run(tmp_path, "history", "search", "--kind", "summary", "spoke of ducks", **env)
    assert "They spoke of ducks." in found.stdout, "/recall finds it, too"
    for line in ("They fly.", "/clear"):  # print mode ends, and has no time to summarize what nobody asks for
        assert run(tmp_path, "-m", "scripted/echo", "-c", "-p", line, **env).returncode == 0
    figures = figures_of(run(tmp_path, "-c", "-p", "/summary", "--output-format", "json", **env))
    assert len(figures["cleared"]) == 1
