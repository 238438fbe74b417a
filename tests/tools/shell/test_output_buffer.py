"""Buffers keep output the same way, whatever the pieces in which it arrives."""

from hypothesis import given
from hypothesis import strategies as st

from ikigai.tools.shell.output_buffer import HeadTailBuffer, TailBuffer, shorten_middle, whole_characters

PIECES = st.lists(st.binary(max_size=40) | st.text(max_size=10).map(str.encode), max_size=20)


@given(PIECES, st.integers(0, 30), st.integers(0, 30))
def test_head_and_tail_are_those_of_the_whole(pieces: list[bytes], head: int, tail: int):
    kept, data = HeadTailBuffer(head, tail), b"".join(pieces)
    for piece in pieces:
        kept.add(piece)
    assert kept.cut == max(0, len(data) - head - tail) and kept.total == len(data)
    if not kept.cut:
        assert kept.text() == data.decode(errors="replace")
        return
    first, said, rest = kept.text().partition("\n[… ")
    out, more, last = rest.partition(" bytes omitted …]\n")
    assert (
        said and more and kept.cut <= int(out.replace(",", "")) <= len(data)
    )  # and halves of two characters and words
    assert data[:head].decode(errors="replace").startswith(first)
    assert data[len(data) - tail :].decode(errors="replace").endswith(last)


def test_no_character_is_cut_in_two():
    kept = HeadTailBuffer(10, 10)
    kept.add("äöü€".encode() * 50)
    assert kept.text() == "äöü€\n[… 432 bytes omitted …]\näöü€"


@given(st.text(max_size=300), st.integers(150, 1500))
def test_text_that_is_too_long_is_shortened_to_what_fits(text: str, most: int):
    short, data = shorten_middle(text, most), text.encode(errors="replace")
    assert (short == text) == (len(data) <= most)
    assert len(short.encode(errors="surrogatepass")) <= max(most, len(text.encode(errors="surrogatepass")))
    if short != text:
        assert len(short.encode()) <= most and "bytes omitted" in short


@given(PIECES, st.lists(st.booleans(), min_size=20, max_size=20))
def test_news_joined_are_the_whole(pieces: list[bytes], reads: list[bool]):
    recent, found = TailBuffer(10_000), ""
    for piece, read in zip(pieces, reads, strict=False):
        recent.add(piece)
        if read:
            text, lost = recent.read_new(final=False)
            found += text
            assert not lost
    found += recent.read_new(final=True)[0]
    assert found == b"".join(pieces).decode(errors="replace")
    assert recent.read_new(final=True) == ("", 0)


def test_half_a_key_is_left_out_with_the_middle():
    kept = HeadTailBuffer(30, 30)
    kept.add(
        b"the key is sk-proj-abcdefghijklmnopqrstuvwxyz "
        + b"x " * 100
        + b"sk-proj-abcdefghijklmnopqrstuvwxyz is the key"
    )
    assert kept.text() == "the key is \n[… 269 bytes omitted …]\n is the key"
    for head in range(1, 80):
        kept = HeadTailBuffer(head, 5)
        kept.add(b"a sk-proj-abcdefghijklmnopqrstuvwxyz b " + b"x " * 100)
        assert "sk-proj-abcdefghijklmnopqrstuvwxyz" in kept.text() or "sk-proj-" not in kept.text()


def test_key_is_not_read_in_two_halves():
    recent = TailBuffer(10_000)
    recent.add(b"the key is sk-proj-abc")
    assert recent.read_new(final=False) == ("the key is ", 0)
    recent.add(b"def\npassword: ")
    assert recent.read_new(final=False) == ("sk-proj-abcdef\npassword: ", 0)
    recent.add(b"a word: S3cr3t!Pa")
    assert recent.read_new(final=False) == ("a word: ", 0)
    assert recent.read_new(final=False) == ("S3cr3t!Pa", 0), "what does not go on is told at the next call"


@given(st.lists(st.binary(max_size=30), max_size=20), st.integers(1, 40))
def test_of_more_than_is_kept_the_last_is_there(pieces: list[bytes], most: int):
    recent, data = TailBuffer(most), b"".join(pieces)
    for piece in pieces:
        recent.add(piece)
    text, lost = recent.read_new(final=True)
    assert lost == max(0, len(data) - most) and text == data[lost:].decode(errors="replace")
    assert recent.last_lines(10**6) == data[lost:].decode(errors="replace")


def test_last_lines():
    recent = TailBuffer(1000)
    recent.add(b"a\nb\nc\n")
    assert (recent.last_lines(2), recent.last_lines(1), recent.last_lines(9)) == ("b\nc\n", "c\n", "a\nb\nc\n")
    recent.add(b"d")
    assert (recent.last_lines(2), recent.last_lines(1)) == ("c\nd", "d")


@given(st.text(min_size=1))
def test_character_that_is_still_coming_waits(text: str):
    data = text.encode(errors="replace")
    for end in range(len(data)):
        begun = whole_characters(data[:end])
        assert data.startswith(begun) and end - len(begun) < 4
        begun.decode()  # nothing is half there
