"""Measure TYPE: the wait of a key in a folder of 100,000 files, and the time until all are searched."""

import asyncio
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from ikigai.repl.input.file_mentions import FileMentions
from tests.bench.figures import Figure, percentile

FRAME = 1 / 60
"""Seconds of a frame."""
PARTS = (
    "agent",
    "app",
    "config",
    "core",
    "data",
    "index",
    "json",
    "main",
    "model",
    "parser",
    "src",
    "store",
    "test",
    "view",
)


def measure(quick: bool) -> list[Figure]:
    return asyncio.run(compare(500 if quick else 100_000))


async def compare(files: int) -> list[Figure]:
    """Type names in a repository of `files` files, and measure the event loop meanwhile."""
    with TemporaryDirectory(prefix="ikigai-bench-") as folder:
        _made(Path(folder), files)
        mentions = FileMentions(Path(folder), list, lambda: None)
        began = time.perf_counter()
        mentions.matches("")
        late = await _until(lambda: mentions.is_idle)
        listed = time.perf_counter() - began
        keys, whole = list[float](), list[float]()
        for typed in _typed():
            began = time.process_time()
            mentions.matches(typed)
            keys.append(time.process_time() - began)
            late += await _until(lambda: mentions.is_idle)
            whole.append(time.process_time() - began)
        await mentions.close()
    what = f"@ among {files:,} files"
    return [
        Figure("TYPE", f"{what}: CPU of a key's answer, p95", "s", [percentile(keys, 95)], "a frame", [FRAME], 1.0),
        Figure(
            "TYPE", f"{what}: CPU until all are looked through, p95", "s", [percentile(whole, 95)], "a frame", [FRAME]
        ),
        Figure("TYPE", f"{what}: the loop was late, p99", "s", [percentile(late, 99)], "a frame", [FRAME]),
        Figure("TYPE", f"{what}: all listed", "s", [listed], "a frame", [FRAME]),
    ]


def _made(folder: Path, files: int) -> None:
    chance = Random(16)
    for number in range(files):
        place = folder / chance.choice(PARTS) / f"{chance.choice(PARTS)}{number % 9}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{chance.choice(PARTS)}_{chance.choice(PARTS)}{number}.py").touch()
    for words in (("init", "-q"), ("add", ".")):
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


def _typed() -> list[str]:
    """Return names as they grow key by key: common, rare, with a folder, with letters left out, and a missing one."""
    names = ("parser_main", "src_config7", "core/ind", "mnvw", "zzq")
    return [name[:size] for name in names for size in range(1, len(name) + 1)]


async def _until(true: Callable[[], bool]) -> list[float]:
    """Return the delays of the loop until `true` returns True."""
    late = list[float]()
    while not true():
        began = time.perf_counter()
        await asyncio.sleep(0.001)
        late.append(max(0.0, time.perf_counter() - began - 0.001))
    return late
