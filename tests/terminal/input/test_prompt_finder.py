"""These tests search earlier prompts: offered, chosen, taken, and the input restored."""

from collections.abc import Callable, Sequence

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document

from ikigai.core.search.prompt_history import SentPrompt
from ikigai.terminal.input.prompt_finder import PromptFinder, begin_search, describe_prompt, draw_excerpt, format_ago
from ikigai.terminal.input.sent_prompts import Pastes, PromptHistory

LONG = "\n".join(f"line {n}" for n in range(40))


class Log:
    """A search that answers on request."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.stopped = 0
        self.drawn = 0
        self.answer: Callable[[Sequence[SentPrompt]], object] = lambda more: None

    def __call__(self, typed: str, found: Callable[[Sequence[SentPrompt]], object]) -> Callable[[], object]:
        self.asked.append(typed)
        self.answer = found
        return self.stop

    def stop(self) -> None:
        self.stopped += 1

    def changed(self) -> None:
        self.drawn += 1


def finder(buffer: Buffer, log: Log, *sent: str) -> PromptFinder:
    pastes = Pastes()
    prompts = PromptHistory(pastes)
    prompts.fill(["old one", "old two"])
    for text in sent:
        prompts.append_string(pastes.collapsed(text))
    return begin_search(buffer, prompts, log, pastes.collapsed, lambda: 80, log.changed)


def rows(buffer: Buffer) -> list[tuple[str, str]]:
    state = buffer.complete_state
    return [(each.display_text, each.display_meta_text) for each in state.completions] if state else []


def test_prompts_at_hand_are_offered_at_once_and_the_log_adds_place_and_time():
    buffer, log = Buffer(), Log()
    buffer.document = Document("draft", 2)
    search = finder(buffer, log, "new one")
    assert (buffer.text, [text for text, _ in rows(buffer)]) == ("new one", ["new one", "old one", "old two"])
    search.typed("one")
    assert log.asked == ["", "one"] and log.stopped == 1
    log.answer(
        [SentPrompt("one more", 7, 1.0, "amber-fox", "/srv/x"), SentPrompt("here one", 3, 1.0, "blue-owl", "/h", True)]
    )
    assert [text for text, _ in rows(buffer)] == ["new one", "here one", "old one", "one more"]
    assert rows(buffer)[1][1].startswith("blue-owl · ") and " · /srv/x · " in rows(buffer)[3][1]
    assert log.drawn == 1
    assert search.ended(take=False) is None
    assert (buffer.text, buffer.cursor_position, rows(buffer), log.stopped) == ("draft", 2, [], 2)


def test_chosen_prompt_stays_chosen_when_more_come():
    buffer, log = Buffer(), Log()
    search = finder(buffer, log)
    search.move(1)
    assert buffer.text == "old two"
    log.answer([SentPrompt("here", 9, 1.0, "a", "/h", True)])
    assert [text for text, _ in rows(buffer)] == ["here", "old one", "old two"]
    assert buffer.text == "old two"
    search.move(9)
    search.move(-9)
    assert buffer.text == "here"
    assert search.ended(take=True) == "here"
    assert buffer.text == ""


def test_matches_of_an_older_search_are_dropped():
    buffer, log = Buffer(), Log()
    search = finder(buffer, log)
    late = log.answer
    search.typed("nowhere")
    late([SentPrompt("nowhere else", 9, 1.0)])
    assert search.empty and buffer.text == "" and not rows(buffer) and not log.drawn
    assert search.ended(take=True) is None


def test_long_texts_are_shown_as_labels_and_taken_whole():
    buffer, log = Buffer(), Log()
    search = finder(buffer, log, LONG)
    assert buffer.text == "[pasted 40 lines]"
    assert rows(buffer)[0][0].startswith("line 0 line 1 ")
    assert search.ended(take=True) == LONG


def test_rows_show_the_matching_place_and_no_control_characters():
    text = "word " * 40 + "needle in\x1b[2J it"
    assert "needle in" in draw_excerpt(text, "needle", 40)
    assert "\x1b" not in draw_excerpt(text, "needle", 40)
    assert len(draw_excerpt(text, "", 40)) == 40
    assert draw_excerpt("some needle", "needle", 8) == "…some n…"
    assert "\x1b" not in describe_prompt(SentPrompt("x", 1, 1.0, "a\x1b[31m", "/d\n"))


def test_ago():
    told = [format_ago(seconds) for seconds in (5, 60, 150, 3600, 86_400, 200_000, 2_700_000, 70_000_000)]
    assert told == [
        "just now",
        "1 min ago",
        "2 min ago",
        "1 h ago",
        "1 day ago",
        "2 days ago",
        "1 month ago",
        "2 years ago",
    ]
