"""Make words for conversations: prose with a Zipf vocabulary, Markdown, code, commands and their output.

A text is cut out of a long tape of words made once, so that a million of them take seconds; numbers and hashes that
occur nowhere else stand between them, as they do in real logs.
"""

from bisect import bisect_left
from itertools import accumulate
from random import Random

COMMON = (
    "the of and to a in is that it for was on are as with be at this by from not or have an which can if we then when "
    "file test error value function table should all but there code line one will would because time run into server "
    "only request data each after same before query log window message"
)
ONSETS = ("b", "br", "c", "ch", "d", "f", "fl", "g", "gr", "h", "k", "l", "m", "n", "p", "qu", "r", "s", "st", "t", "v")
VOWELS = ("a", "e", "i", "o", "u", "a", "e", "i", "o", "u", "ai", "ea", "ou", "á", "é", "ö")
CODAS = ("", "", "", "n", "r", "s", "t", "l", "m", "nd", "ck", "st")
SUFFIXES = (".py", ".sql", ".toml", ".md", ".rs", ".c")

UNENDED = str.maketrans("", "", ".?!,")

VOCABULARY = 20_000
TAPE = 200_000


class Prose:
    """A generator of the same words in the same order for the same `rng`. Lengths are words or lines."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._names = [_word(rng) for _ in range(VOCABULARY)]
        words = [*COMMON.split(), *self._names]
        weights = list(accumulate(1 / (rank + 2.7) for rank in range(len(words))))  # Zipf's law, Mandelbrot's form
        self._tape: list[str] = []
        self._starts: list[int] = []
        drawn = iter(rng.choices(words, cum_weights=weights, k=TAPE))
        for word in drawn:
            self._starts.append(len(self._tape))
            self._tape += _sentence([word, *(next(drawn, "so") for _ in range(rng.randint(3, 22)))], rng)
        self._lines = [self._line() for _ in range(TAPE // 20)]

    def text(self, words: int) -> str:
        """Return whole sentences, of about `words` words."""
        first = self._rng.randrange(len(self._starts) - 1 - words)
        start = self._starts[first]
        last = bisect_left(self._starts, start + words, lo=first + 1, hi=len(self._starts) - 1)
        return " ".join(self._tape[start : self._starts[last]])

    def phrase(self, words: int) -> str:
        """Return exactly `words` words, without punctuation at the end."""
        start = self._rng.choice(self._starts[:-words])
        return " ".join(self._tape[start : start + words]).translate(UNENDED)

    def name(self) -> str:
        return self._rng.choice(self._names)

    def path(self) -> str:
        return f"{self.name()}/{self.name()}{self._rng.choice(SUFFIXES)}"

    def hash(self) -> str:
        return f"{self._rng.getrandbits(40):010x}"

    def question(self) -> str:
        asked = self.text(min(5 + int(self._rng.expovariate(1 / 15)), 200))
        return f"{asked}\n\n```\n{self.printed(self._rng.randint(2, 12))}\n```" if self._rng.random() < 0.06 else asked

    def markdown(self, words: int) -> str:
        """Return an answer of about `words` words, as models write to people who program."""
        blocks: list[str] = []
        while words > 0:
            share = min(words, self._rng.randint(15, 60))
            words -= share
            match self._rng.random():
                case p if p < 0.46:
                    blocks.append(self._marked(self.text(share)))
                case p if p < 0.66:
                    blocks.append("\n".join(self._items(share)))
                case p if p < 0.88:
                    blocks.append(self.code(share // 4 + 2))
                case p if p < 0.96:
                    blocks.append(f"## {self.phrase(4)}")
                case _:
                    blocks.append(self._table())
        return "\n\n".join(blocks)

    def code(self, lines: int) -> str:
        body: list[str] = []
        while len(body) < lines:
            name, thing, other = self.name(), self.name(), self.name()
            body += [
                f"def {name}_{thing}(self, {thing}: list[str], {other}: int = {self._rng.randint(0, 4096)}) -> str:",
                f'    """{self.phrase(7)}."""',
                f"    for number, each in enumerate({thing}, start=1):",
                f"        if number % {other} == 0:  # {self.phrase(5)}",
                f'            self.{name}.append(f"{{number}}: {{each}} {thing}")',
                f"    return '{self.name()}'.join(self.{name}) or None",
                "",
            ]
        return "```python\n" + "\n".join(body).rstrip() + "\n```"

    def printed(self, lines: int) -> str:
        """Return the answer of a tool in `lines` lines, the first one found nowhere else."""
        first = self._rng.randrange(len(self._lines))
        return "\n".join([f"# {self.hash()} {self.path()}", *self._lines[first : first + lines]])

    def _marked(self, text: str) -> str:
        """Return prose with the marks of models: names as code, and here and there a word or a link."""
        words = text.split(" ")
        for at in range(self._rng.randint(0, 9), len(words), 11):
            match self._rng.random():
                case p if p < 0.6:
                    words[at] = f"`{self.name()}_{self.name()}`"
                case p if p < 0.85:
                    words[at] = f"**{words[at]}**"
                case p if p < 0.93:
                    words[at] = f"*{words[at]}*"
                case _:
                    words[at] = f"[{words[at]}](https://example.org/{self.hash()})"
        return " ".join(words)

    def _items(self, words: int) -> list[str]:
        sign = "1." if self._rng.random() < 0.4 else "-"
        return [f"{sign} **{self.name()}**: {self._marked(self.text(8))}" for _ in range(words // 10 + 2)]

    def _table(self) -> str:
        rows = [f"| {self.name()} | {self._rng.randint(1, 9999)} | {self.phrase(4)} |" for _ in range(4)]
        return "\n".join(["| name | count | what |", "|---|---|---|", *rows])

    def _line(self) -> str:
        rng = self._rng
        match rng.randrange(4):
            case 0:
                return f"-rw-r--r-- 1 user user {rng.randint(10, 99999):>6} Nov {rng.randint(1, 30):>2} {self.path()}"
            case 1:
                return f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}:07 INFO {self.phrase(7)} id={self.hash()}"
            case 2:
                return f"{self.path()}:{rng.randint(1, 900)}: {self.phrase(8)}"
            case _:
                return f"    {self.name()}.{self.name()}({self.name()}, {rng.randint(0, 999)})"


def _word(rng: Random) -> str:
    syllables = 1 + min(int(rng.expovariate(0.8)), 4)
    return "".join(rng.choice(ONSETS) + rng.choice(VOWELS) for _ in range(syllables)) + rng.choice(CODAS)


def _sentence(words: list[str], rng: Random) -> list[str]:
    words[0] = words[0].capitalize()
    if len(words) > 9:
        words[len(words) // 2] += ","
    words[-1] += rng.choice("....?!")
    return words
