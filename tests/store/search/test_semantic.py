"""Recall by meaning: the real word vectors of the extra `semantic`, damaged ones, and none."""

import json
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from random import Random

import pytest

from ikigai.core.errors import ConfigError
from ikigai.store.database import Database
from ikigai.store.search import semantic_order, word_vectors
from ikigai.store.search.semantic_order import fused_order
from ikigai.store.search.word_vectors import TOKENS_FILE, WEIGHTS_FILE, WordVectors
from tests.bench.prose import Prose
from tests.store.talk import Talk
from tests.support import semantic

MAX_MEMORY_MIB = 70

needs_extra = pytest.mark.skipif(
    word_vectors.folder() is None, reason="the extra `semantic` is not installed: numpy and wordllama"
)


@pytest.fixture
def vectors() -> WordVectors:
    found = word_vectors.load_installed()
    assert found
    return found


@pytest.fixture
def damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the package's two files, from which recall loads its word vectors."""
    installed = word_vectors.folder()
    assert installed
    for file in (WEIGHTS_FILE, TOKENS_FILE):
        (tmp_path / file).parent.mkdir()
        shutil.copy(installed / file, tmp_path / file)
    monkeypatch.setattr(word_vectors, "folder", lambda: tmp_path)
    word_vectors.load_installed.cache_clear()
    yield tmp_path
    word_vectors.load_installed.cache_clear()


async def pets(database: Database) -> Talk:
    """A talk of food in which the second best by words is about a puppy's."""
    talk = await Talk.open(database)
    await talk.turn("The invoice names food.", "Good.")
    await talk.turn("Somewhat later in the evening, as agreed, the puppy got its food.", "Good.")
    for thing in ("printer", "tax", "elevator", "contract", "bridge"):
        await talk.turn(
            f"The {thing} has nothing whatsoever to do with any sort of food late in summer evenings.", "Good."
        )
    return talk


async def order(database: Database, question: str) -> list[int]:
    return [turn.first for turn in (await database.recall(question)).turns]


@needs_extra
def test_words_of_like_meaning_are_similar(vectors: WordVectors):
    near, far, same, none = vectors.similarities([("dog", 2.0)], [["puppy", "the"], ["invoice"], ["dog", "x"], []])
    assert far < near < same == 1.0 and none == 0.0
    car, both = vectors.similarities([("dog", 1.0), ("car", 3.0)], [["automobile"], ["puppy", "automobile"]])
    assert car < both < 1.0


@needs_extra
def test_similarity_does_not_depend_on_the_other_texts(vectors: WordVectors):
    prose = Prose(Random(9))
    texts = [prose.text(80).lower().split() for _ in range(40)]
    asked = [(word, 1.0 + len(word)) for word in texts[7][:9]]
    together = vectors.similarities(asked, texts)
    assert together == [vectors.similarities(asked, [text])[0] for text in texts]
    assert together == vectors.similarities(asked, [text[::-1] for text in reversed(texts)])[::-1]


@needs_extra
async def test_meaning_ranks_what_the_words_find(database: Database):
    talk = await pets(database)
    with semantic.without():
        plain = await database.recall("which food is for our dog?")
    found = await database.recall("which food is for our dog?")
    assert "puppy" in found.turns[0].messages[0].excerpt and "puppy" not in plain.turns[0].messages[0].excerpt
    assert {turn.first for turn in found.turns} == {turn.first for turn in plain.turns} and not found.notice
    assert found.turns[0].score == plain.turns[0].score and found.weight == plain.weight
    scores = [turn.score for turn in found.turns]
    assert scores == sorted(scores, reverse=True) and min(scores) > 0
    assert not (await database.recall("hound")).turns, "a turn without any word of the question is not found"
    await talk.log.close()


@needs_extra
async def test_turn_of_like_meaning_is_found_beside_a_match(database: Database):
    talk = await Talk.open(database)
    await talk.turn("The invoice is here.", "It names food.")
    await talk.turn("The puppy eats only fish.", "I see.")
    await talk.turn("We go to buy food.", "Food it is.")
    await talk.turn("The elevator is broken.", "I see.")
    with semantic.without():
        plain = await database.recall("which food is for our dog?")
    found = await database.recall("which food is for our dog?")
    said = [{turn.messages[0].excerpt.split()[1] for turn in each.turns} for each in (plain, found)]
    assert said == [{"invoice", "go"}, {"invoice", "go", "puppy"}]
    await talk.log.close()


@needs_extra
async def test_question_in_another_language_is_ranked_by_words_alone(
    database: Database, monkeypatch: pytest.MonkeyPatch
):
    talk = await pets(database)
    monkeypatch.setattr(semantic_order, "compare", None)
    assert await order(database, "wo ist der puppy und das food?")
    with pytest.raises(TypeError):
        await order(database, "where is the food of the puppy?")
    await talk.log.close()


ODD = (
    *("a food", "the of and in its food", "food 🦭 日本の首都 еда " + "x" * 100_000, "food " * 20_000),
    *("food\x00 e\u0301", "f"),
)


@needs_extra
async def test_odd_questions_have_the_same_order_each_time(database: Database):
    talk = await pets(database)
    await talk.turn("🦭 " * 3_000 + "food", "日本の food " * 3_000)
    await talk.turn("", "food")
    for question in ODD:
        found = await database.recall(question)
        assert bool(found.turns) == ("food" in question) and not found.notice, question[:20]
        assert (await database.recall(question)).turns == found.turns, question[:20]
    await talk.log.close()


@needs_extra
@pytest.mark.ordinary("empty-*json", "missing-*", "half-*safetensors", "noise-*safetensors", "other-*json")
@pytest.mark.parametrize("file", [WEIGHTS_FILE, TOKENS_FILE])
@pytest.mark.parametrize("how", ["empty", "missing", "half", "noise", "other"])
async def test_damaged_files_leave_the_order_of_words_and_one_notice(
    database: Database, damaged: Path, file: str, how: str
):
    path = damaged / file
    data = path.read_bytes()
    path.unlink()
    if how != "missing":
        other = b"\x02\0\0\0\0\0\0\0{}" if file == WEIGHTS_FILE else b"{}"
        path.write_bytes({"empty": b"", "half": data[: len(data) // 2], "noise": b"\xff" * 5_000, "other": other}[how])
    talk = await pets(database)
    with semantic.without():
        plain = await database.recall("which food is for our dog?")
    found = await database.recall("which food is for our dog?")
    assert found.turns == plain.turns and not plain.notice
    assert str(damaged) in found.notice and "\n" not in found.notice and "[semantic]" in found.notice
    with pytest.raises(ConfigError):
        word_vectors.load_installed()
    path.write_bytes(data)
    assert not (await database.recall("which food is for our dog?")).notice, "it was installed again"
    await talk.log.close()


@needs_extra
def test_numbers_that_are_none_do_not_spoil_the_order(damaged: Path):
    path = damaged / WEIGHTS_FILE
    data = bytearray(path.read_bytes())
    data[-16_000_000:] = b"\xff\x7f" * 8_000_000
    path.write_bytes(data)
    vectors = word_vectors.load(damaged)
    assert all(-1 <= each <= 1 for each in vectors.similarities([("dog", 1.0)], [["puppy"], ["of", "dog"], []]))


def written(folder: Path, tokens: str, shape: list[int], offsets: list[int], data: bytes) -> Path:
    """Write the two files of the package with this vocabulary in JSON and this tensor."""
    tensor = {"embedding.weight": {"dtype": "F16", "shape": shape, "data_offsets": offsets}}
    header = json.dumps(tensor).encode()
    for file, content in (
        (TOKENS_FILE, f'{{"model": {{"type": "BPE", "merges": [], "vocab": {tokens}}}}}'.encode()),
        (WEIGHTS_FILE, struct.pack("<Q", len(header)) + header + data),
    ):
        (folder / file).parent.mkdir()
        (folder / file).write_bytes(content)
    return folder


@needs_extra
@pytest.mark.parametrize(
    ("tokens", "shape", "offsets"),
    [
        ("{}", [3, 4], [0, 24]),
        ('{"a": -9, "b": 1}', [3, 4], [0, 24]),
        ('{"a": 9}', [3, 4], [0, 24]),
        ('{"a": 0}', [3, 4], [-500, -476]),
        ('{"a": 0}', [3, 400], [0, 24]),
        ('{"a": 0}', [12], [0, 24]),
        ('{"a": 0}}, "x": {"y": ' + "[" * 100_000, [3, 4], [0, 24]),
    ],
)
def test_absurd_files_are_damaged(tmp_path: Path, tokens: str, shape: list[int], offsets: list[int]):
    with pytest.raises(ConfigError, match="cannot be read"):
        word_vectors.load(written(tmp_path, tokens, shape, offsets, bytes(24)))


@needs_extra
def test_infinite_numbers_warn_of_nothing(tmp_path: Path, recwarn: pytest.WarningsRecorder):
    data = b"\x00\x7c\x00\xfc" * 6
    vectors = word_vectors.load(written(tmp_path, '{"a": 0, "b": 1, "c": 2}', [3, 4], [0, 24], data))
    assert all(-1 <= each <= 1 for each in vectors.similarities([("ab", 1.0)], [["c"], ["bc"], ["🎉"], []]))
    assert not recwarn.list


def test_ranks_are_fused():
    assert fused_order([]) == [] and fused_order([None, None, None]) == [0, 1, 2] == fused_order([0.4, 0.4, 0.4])
    assert fused_order([0.1, 0.9, 0.5]) == [0, 1, 2] and fused_order([0.1, 0.9, 0.5, 0.4]) == [1, 0, 2, 3]
    assert fused_order([None, 0.1]) == [0, 1], "what was not compared ranks by its words"
    random = Random(3)
    for _ in range(100):
        near = [random.choice((None, random.uniform(-1, 1))) for _ in range(30)]
        order = fused_order(near)
        assert sorted(order) == list(range(30))
        told = [place for place in order if near[place] is not None]
        for first, second in combinations(told, 2):
            assert first < second or (near[first] or 0) > (near[second] or 0), (
                "nothing is before what is better by both"
            )


MEMORY = """
import re
from pathlib import Path
from random import Random
from ikigai.store.search import stems, word_vectors
from tests.bench.prose import Prose

def told(name):
    return int(re.search(rf"{name}:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])

prose = Prose(Random(1))
texts = [stems.content_words(prose.text(600), "english") for _ in range(300)]
before = told("VmRSS")
Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
vectors = word_vectors.load_installed()
for first in range(0, 200, 10):
    vectors.similarities([(word, 1.0) for word in prose.phrase(20).split()], texts[first : first + 100])
print(told("VmHWM") - before)
"""


@needs_extra
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read from /proc")
def test_word_vectors_take_little_memory():
    taken = int(subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, check=True).stdout)
    assert 0 < taken / 1024 <= MAX_MEMORY_MIB


def test_recall_loads_no_numpy_before_it_is_asked():
    code = "import sys, ikigai.store.search.turn_recall; sys.exit('numpy' in sys.modules or 'wordllama' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
