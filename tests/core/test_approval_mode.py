"""These tests cover the approval modes: their order, reading settings, and the mode after Shift+Tab."""

import pytest

from ikigai.core.events.events import Choices
from ikigai.core.tools.approval_mode import ApprovalMode

MODES = [ApprovalMode.READ_ONLY, ApprovalMode.ASK, ApprovalMode.EDITS, ApprovalMode.AUTO, ApprovalMode.YOLO]


def test_stored_strings_are_these():
    assert [mode.value for mode in ApprovalMode] == ["read-only", "ask", "edits", "auto", "yolo"]


def test_modes_are_ordered_by_what_they_let_run():
    for rank, mode in enumerate(MODES):
        assert mode.up_to() == tuple(MODES[: rank + 1])
        for other_rank, other in enumerate(MODES):
            assert mode.stricter(other) is MODES[min(rank, other_rank)]


@pytest.mark.parametrize("mode", MODES)
def test_mode_of_settings_is_the_stored_one(mode: ApprovalMode):
    assert ApprovalMode.of({"approval": mode.value}) is mode
    assert mode.meaning


@pytest.mark.parametrize("settings", [{}, {"approval": None}, {"approval": ""}, {"approval": "Yolo"}, {"approval": 4}])
def test_mode_of_settings_is_ask_when_none_or_an_unknown_one_is_stored(settings: Choices):
    assert ApprovalMode.of(settings) is ApprovalMode.ASK


def test_shift_tab_never_leads_into_yolo():
    seen, mode = [], ApprovalMode.ASK
    for _ in range(4):
        mode = mode.following()
        seen.append(mode)
    assert seen == [ApprovalMode.EDITS, ApprovalMode.AUTO, ApprovalMode.READ_ONLY, ApprovalMode.ASK]
    assert ApprovalMode.YOLO.following() is ApprovalMode.ASK
