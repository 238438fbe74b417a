"""Approval modes: how many actions of models run without a question, beginning with the strictest mode."""

from enum import StrEnum

from ikigai.core.events.events import Choices


class ApprovalMode(StrEnum):
    """The level of freedom from questions, from least to most; the value is the stored one of the setting
    `approval`.
    """

    READ_ONLY = "read-only"
    ASK = "ask"
    EDITS = "edits"
    AUTO = "auto"
    YOLO = "yolo"

    @classmethod
    def of(cls, settings: Choices) -> "ApprovalMode":
        """Return the mode in force with these settings: ask, where they have none or an unknown one."""
        stored = settings.get("approval")
        return next((mode for mode in cls if mode.value == stored), cls.ASK)

    @property
    def meaning(self) -> str:
        """A clause that says what runs and what asks."""
        return _MEANINGS[self]

    def stricter(self, other: "ApprovalMode") -> "ApprovalMode":
        """Return the stricter one of the two modes."""
        return min(self, other, key=_ORDER.index)

    def up_to(self) -> "tuple[ApprovalMode, ...]":
        """Return the modes that let no more run than this one, the strictest first."""
        return _ORDER[: _ORDER.index(self) + 1]

    def following(self) -> "ApprovalMode":
        """Return the mode that follows this one at a key: never yolo, which itself leads back to ask."""
        return _RING[(_RING.index(self) + 1) % len(_RING)] if self in _RING else ApprovalMode.ASK


_ORDER = tuple(ApprovalMode)
_RING = (ApprovalMode.ASK, ApprovalMode.EDITS, ApprovalMode.AUTO, ApprovalMode.READ_ONLY)
_MEANINGS = {
    ApprovalMode.READ_ONLY: "files can be read, nothing can be changed or run",
    ApprovalMode.ASK: "reading in the working directory is allowed, everything else asks first",
    ApprovalMode.EDITS: "edits in the working directory are made, everything else asks first",
    ApprovalMode.AUTO: "edits are made and commands of the allow-list run, everything else asks first",
    ApprovalMode.YOLO: "everything runs without asking",
}
