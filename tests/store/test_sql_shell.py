"""What stands in for psql: a text falls into statements as psql would have it, and answers come as text."""

import random

import pytest

from ikigai.core.errors import Refused
from ikigai.store.sql_shell import MOST_ROWS, Shell, statements

SPLIT = {
    "select 1": ([], "select 1"),
    "select 1;": (["select 1"], ""),
    " ;; select 1 ;\n;select 2": (["select 1"], "select 2"),
    "select ';';": (["select ';'"], ""),
    "select 'it''s; so';": (["select 'it''s; so'"], ""),
    r"select E'\';\\';": ([r"select E'\';\\'"], ""),
    r"select '\';": ([r"select '\'"], ""),
    'select ";";': (['select ";"'], ""),
    "select 1 -- no;\n;": (["select 1 -- no;"], ""),
    "select 1 /* ; */;": (["select 1 /* ; */"], ""),
    "select $$a;'b$$; select $x$ $$;$y$; $x$;": (["select $$a;'b$$", "select $x$ $$;$y$; $x$"], ""),
    "select $1 - 2 / 3;": (["select $1 - 2 / 3"], ""),
    "select 'open; select 1;": ([], "select 'open; select 1;"),
    'select 1; select "open;': (["select 1"], 'select "open;'),
    "select /* open;": ([], "select /* open;"),
    "select $a$ open; $b$": ([], "select $a$ open; $b$"),
    "select e'open\\';": ([], "select e'open\\';"),
    "select 1; -- good-bye": (["select 1"], ""),
    "/* nothing; */ ; -- nor here\n;": ([], ""),
    " select 'open ": ([], "select 'open "),
}


@pytest.mark.parametrize("text", SPLIT)
def test_statements(text: str) -> None:
    assert statements(text) == SPLIT[text]


def test_line_by_line_it_comes_to_the_same() -> None:
    draw = random.Random(1)
    for _ in range(500):
        text = "".join(draw.choices(["a ", "'", '"', ";", "\n", "$$", "--", "/*", "*/", "e'", "\\"], k=12))
        whole, rest = statements(text)
        found: list[str] = []
        open_text = ""
        for line in text.split("\n"):
            done, open_text = statements(f"{open_text}\n{line}")
            found += done
        assert found == whole and rest.endswith(open_text) and bool(rest) == bool(open_text), repr(text)


async def test_answers(dsn: str) -> None:
    shell = Shell(dsn)
    answer = await shell.run(
        "select 1 as one, null as none, 'x' || chr(27) as text, '{1,2}'::int[] as list, '100%s' as p"
    )
    assert answer.columns == ("one", "none", "text", "list", "p")
    assert answer.rows == [("1", None, "x\x1b", "{1,2}", "100%s")] and answer.status == "SELECT 1"
    many = await shell.run("select generate_series(1, 1001)")
    assert (len(many.rows), many.total) == (MOST_ROWS, 1001)
    assert "turns" in {name for name, *_ in (await shell.relations()).rows}
    assert ("reason", "text", "Why it failed.") in (await shell.columns("turns")).rows
    assert (await shell.columns("nothing")).rows == []
    for wrong in ("select nonsense", "delete from drafts", "copy agents to stdout", "select 1; select 2; drop table x"):
        with pytest.raises(Refused) as refused:
            await shell.run(wrong)
        assert refused.value.what.startswith("The database refused: ") and refused.value.remedy
    assert (await shell.run("select 2")).rows == [("2",)]
    await shell.close()
