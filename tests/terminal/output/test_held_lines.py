"""The line of a call waits until it is known how the call is shown; none is lost."""

from msgspec.structs import replace

from ikigai.core.tools.tool_denial import DENIED_TOGETHER
from ikigai.core.views.call_words import join_results
from ikigai.core.views.questions import Question
from ikigai.core.views.transcript import Speaker, TranscriptBlock
from ikigai.terminal.output.held_lines import HeldCalls


def call(id: str, name: str = "shell", hosted: bool = False) -> TranscriptBlock:
    return TranscriptBlock(1, Speaker.TOOL_CALL, "{}", name, call=id, hosted=hosted)


def result(id: str, name: str = "", failed: bool = False) -> TranscriptBlock:
    return TranscriptBlock(2, Speaker.TOOL_RESULT, "x", name, failed, call=id)


def held(*calls: TranscriptBlock) -> HeldCalls:
    made = HeldCalls()
    assert all(map(made.hold, calls))
    return made


def test_line_is_printed_when_the_call_starts_and_dropped_where_a_question_names_it():
    calls = held(one := call("1"), call("2"), call("3"))
    calls.propose(Question("?", ("→ edit",), (), "n", calls=("2",)))
    assert (calls.started("1"), calls.started("1"), calls.started("2"), calls.started("9")) == ([one], [], [], [])
    assert calls.before(result("1")) == ([], result("1")) and calls.before(result("3")) == ([call("3")], result("3"))
    assert calls.take_all() == []


def test_call_that_only_reads_is_printed_with_its_result():
    calls = held(read := call("1", "read_file"), call("2", "grep"))
    assert calls.started("1") == []
    before, joined = calls.before(result("1"))
    assert before == [] and joined.of == read
    assert calls.before(result("2", failed=True)) == ([call("2", "grep")], result("2", failed=True))


def test_no_call_is_lost_at_the_end_or_at_one_answer_for_all():
    for block in (TranscriptBlock(3, Speaker.STOPPED, "interrupted"), result("2", DENIED_TOGETHER, failed=True)):
        calls = held(call("1"), call("2"))
        assert calls.before(block) == ([call("1"), call("2")], block) and calls.take_all() == []
    assert held(call("1")).take_all() == [call("1")]


def test_other_blocks_and_calls_that_a_vendor_runs_are_not_held():
    calls = HeldCalls()
    for block in (call("1", hosted=True), result("1"), TranscriptBlock(1, Speaker.USER, "?"), call("")):
        assert not calls.hold(block)


def test_file_is_named_by_the_call_alone_where_one_result_follows():
    def edit(id: str) -> TranscriptBlock:
        return TranscriptBlock(1, Speaker.TOOL_CALL, '{"path":"a b.py","old":"x","new":"y"}', "edit_file", call=id)

    def edited(id: str, failed: bool = False) -> TranscriptBlock:
        return TranscriptBlock(2, Speaker.TOOL_RESULT, "Edited a b.py in 1 place.", "", failed, call=id)

    calls = held(edit("1"))
    assert calls.before(edited("1"))[1].text == "Edited in 1 place."
    assert all(map(calls.hold, (edit("2"), edit("3"))))
    for id in "23":
        assert calls.before(edited(id))[1] == edited(id)
    assert calls.hold(edit("4"))
    assert calls.before(edited("4", failed=True))[1] == edited("4", failed=True)
    assert join_results([edit("1"), edited("1")]) == [edit("1"), replace(edited("1"), text="Edited in 1 place.")]
    together = [edit("1"), edit("2"), edited("1"), edited("2")]
    assert join_results(together) == together


def test_calls_of_a_history_that_have_not_started_wait_for_their_question():
    calls = HeldCalls()
    shown = [call("1"), call("2"), result("1")]
    assert calls.hold_again(shown, {"2"}) == [call("1"), result("1")]
    assert calls.take_all() == [call("2")]
