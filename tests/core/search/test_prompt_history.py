"""Sent prompts are found by words or letters; this directory's first, each text once."""

from ikigai.core.search.prompt_history import (
    EXACTLY,
    LOOSELY,
    PromptMatches,
    SentPrompt,
    loose_pattern,
    match_rank,
    split_words,
)

HERE = [SentPrompt("fix the parser", 5, 50.0, "a", "/x", True), SentPrompt("parse this", 3, 30.0, "a", "/x", True)]
ELSEWHERE = [SentPrompt("fix the parser", 9, 90.0, "b", "/y"), SentPrompt("parser tests", 8, 80.0, "b", "/y")]


def texts(typed: str, *found: list[SentPrompt]) -> list[str]:
    finds = PromptMatches(typed)
    for each in found:
        finds.add(each)
    return [each.text for each in finds.best(10)]


def test_words_in_any_order_or_letters_close_together():
    assert match_rank("", "anything") == EXACTLY
    assert match_rank("PARSER fix", "Fix the parser") == EXACTLY
    assert match_rank("fxpars", "fix parser") == LOOSELY
    assert match_rank("fxp", "fine and then much extra prose") == 0
    assert match_rank("zq", "fix the parser") == 0


def test_patterns_hold_what_was_typed_and_no_wildcards():
    assert split_words("50% a_b") == ["%50\\%%", "%a\\_b%"]
    assert loose_pattern("a %") == "%a%\\%%"
    assert split_words("") == []


def test_this_directory_first_then_the_newest_each_once_and_loose_ones_last():
    assert texts("pars", ELSEWHERE, HERE) == ["fix the parser", "parse this", "parser tests"]
    assert texts("zqx", ELSEWHERE, HERE) == []
    assert texts("pser", ELSEWHERE, HERE)[0] == "fix the parser"
    loose = [SentPrompt("prs", 1, 1.0, "a", "/y")]
    assert texts("prs", HERE, loose)[0] == "prs"


def test_what_is_known_of_it_replaces_what_is_not_whichever_comes_first():
    at_hand = [SentPrompt("fix the parser", 1 << 62)]
    for order in ((at_hand, HERE), (HERE, at_hand)):
        finds = PromptMatches("fix")
        for each in order:
            finds.add(each)
        assert finds.best(1)[0].agent == "a"
    assert finds.here() == 1
