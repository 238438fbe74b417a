"""Command line of the bench: select rows, set their sizes, and write the figures.

    python -m tests.bench [S1 S2 …] [--json FILE] [--quick] [--data FOLDER]

Both sides of every ratio are measured in turns in this one run: only ratios hold on another machine, or on a busy one.
The exit code is 0 whether or not the bars hold, and 1 when something could not be measured.
"""

import argparse
import importlib
import json
import platform
import sys
import traceback
from pathlib import Path

from tests.bench.figures import Figure, as_json, table

ROWS = {
    "S1": ("s01_start", "start until keys are taken, and until the last turns are on screen"),
    "S2": ("s02_history", "the same with 1,000,000 events against 10"),
    "S3": ("s03_append", "one event appended, from decided to shown, against a bare INSERT"),
    "S4": ("s04_load", "a window out of 1,000,000 events loaded, 100,000 replayed, against the rows undecoded"),
    "S5": ("s05_window", "accounting and pruning one turn at 100,000 messages against 1,000"),
    "S6": ("s06_stream", "CPU to stream 50 KB of Markdown against one final rich render"),
    "S7": ("s07_keys", "a key until its echo while an answer streams and while an SDK loads, against at rest"),
    "S8": ("s08_search", "a search in 1,000,000 events, whatever is asked, against a capped GIN probe"),
    "S9": ("s09_memory", "peak memory at the prompt against a bare prompt_toolkit prompt"),
    "S10": ("s10_modules", "modules loaded at the first prompt that takes keys"),
    "S11": ("s11_delay", "own delay from Enter to the request and from the answer to the screen, against bare httpx"),
    "FIRST": ("s22_first", "start of a program until its first request, against importing the vendor's SDK"),
    "TURN": ("s23_turn", "own time between two requests of a turn with 1,000 calls, and behind a long history"),
    "S12": ("s12_cost", "a conversation at a full window, priced with a prompt cache, by the way in which turns leave"),
    "S13": ("s13_tokens", "error of the token figure against what the provider counts"),
    "FORK": ("s15_depth", "an agent at the end of 200 forks loaded, against the same turns in one agent"),
    "TYPE": ("s16_typing", "what a key waits for behind an @ in a folder of 100,000 files"),
    "HOPS": ("s17_hops", "modules and packages on the way from Enter to the request, and from a delta to the terminal"),
    "PLAN": (
        "s18_plans",
        "an agent without the planner's statistics, against with them; one used long ago, the newest",
    ),
    "RECALL": ("s19_recall", "evidence that recall finds in the conversations of --data, against a plain BM25"),
    "SCALE": ("s21_scale", "what users do at 10,000,000 events against 1,000,000; takes 25 GB and hours, see --size"),
    "REQ": ("s14_request", "building a request for a window of 100,000 tokens, against encoding it all anew"),
}


def main() -> int:
    arguments = _parser().parse_args()
    figures: list[Figure] = []
    failed: dict[str, str] = {}
    for row in arguments.rows or [row for row in ROWS if row != "SCALE"]:
        print(f"{row}: {ROWS[row][1]} …", file=sys.stderr, flush=True)
        try:
            module = importlib.import_module(f"tests.bench.{ROWS[row][0]}")
            given = {"RECALL": (arguments.data,), "SCALE": (arguments.size,)}.get(row, ())
            figures += module.measure(arguments.quick, *given)
        except Exception as error:
            traceback.print_exc()
            failed[row] = f"{type(error).__name__}: {error}"
    print(table(figures))
    for row, reason in failed.items():
        print(f"{row} could not be measured. {reason}")
    if arguments.json:
        told = {
            "quick": arguments.quick,
            "python": platform.python_version(),
            "machine": platform.platform(),
            "figures": [as_json(figure) for figure in figures],
            "failed": failed,
        }
        arguments.json.write_text(json.dumps(told, indent=2, ensure_ascii=False) + "\n")
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description="Measure ikigai's speed as ratios.",
        epilog="rows:\n" + "\n".join(f"  {row:<6} {what}" for row, (_, what) in ROWS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("rows", nargs="*", metavar="ROW", type=_row, help="which rows; all but SCALE without any")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds: shows that it works, no more")
    parser.add_argument("--size", type=int, metavar="N", help="events of the smaller database of SCALE (1,000,000)")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="conversations in LongMemEval's format, for RECALL")
    return parser


def _row(text: str) -> str:
    if text.upper() not in ROWS:
        raise argparse.ArgumentTypeError(f"there is no row {text!r}; there are {', '.join(ROWS)}")
    return text.upper()


if __name__ == "__main__":
    sys.exit(main())
