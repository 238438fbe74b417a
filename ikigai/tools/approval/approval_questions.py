"""Build the questions about tool calls: the whole command or diff with all characters visible, and the answers."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from ikigai.core.events.messages import ToolCall
from ikigai.core.views.call_words import verb_of
from ikigai.core.views.questions import Choice, Question
from ikigai.tools.approval.batch import PendingApproval
from ikigai.tools.approval.invisible_characters import reveal
from ikigai.tools.approval.policy import COMMAND_TOOLS
from ikigai.tools.base import Effect, EffectKind
from ikigai.tools.web.addresses import describe_private

QUESTION_TITLES = {
    EffectKind.READ: "Read it?",
    EffectKind.EDIT: "Make this edit?",
    EffectKind.NETWORK: "Fetch it?",
    EffectKind.RUN: "Run it?",
}


TOGETHER_KEY, NO_KEY, BACK_KEY = "t", "x", "o"
"""Keys for several calls: show all and answer together, no to all, and back to one by one."""
RULE_KEY = "p"
MAX_NAME_CHARACTERS = 200
"""Characters of a call's short name; the question itself shows all."""
CHANGED_SINCE_SHOWN = "This call has changed since it was shown, so you are asked again."


def build_question(
    call: ToolCall,
    effect: Effect,
    why: tuple[str, ...],
    number: int = 1,
    of: int = 1,
    *,
    changed: bool = False,
    rule: str = "",
    remedy: str = "",
    together: bool = True,
) -> Question:
    """Return the question about a call: the whole command or diff with all characters visible, its place, the reasons.

    `number` and `of` are its position among several calls, which can be answered `together`. `rule` is offered for
    later, `remedy` as in `Question`.
    """
    described = build_call_lines(call, effect, why)
    lines = (*described.lines, *((CHANGED_SINCE_SHOWN,) if changed else ()))
    several = (Choice(TOGETHER_KEY, f"together, all {of - number + 1}"), Choice(NO_KEY, "no to all"))
    several = several[not together :] if number < of else ()
    choices = (
        Choice("y", "yes"),
        *_lasting_choices(effect, why, rule),
        Choice("n", "no"),
        Choice("r", "no, because…", "Why not? The model sees your answer."),
        *several,
    )
    title = QUESTION_TITLES.get(effect.kind, "Allow it?")
    if effect.origin:
        title = f"Fetch {effect.origin} ({describe_private(urlsplit(effect.origin).hostname or '')})?"
    subject, diffs = described.marks(0)
    title = f"{number} of {of} · {title}" if of > 1 else title
    marks = {"subject": subject, "headings": (0,), "diffs": diffs, "calls": (call.id,)}
    return Question(title, lines, choices, default="n", about=_short_name(call, effect), remedy=remedy, **marks)


def _short_name(call: ToolCall, effect: Effect) -> str:
    """Return a call in a few words on one line."""
    shown = _on_one_line(effect.shown)
    if effect.rule:
        return call.name
    name = shown if call.name in COMMAND_TOOLS else f"{verb_of(call.name)} {shown}"
    return name if len(name) <= MAX_NAME_CHARACTERS else f"{name[: MAX_NAME_CHARACTERS - 1]}…"


def _lasting_choices(effect: Effect, why: tuple[str, ...], rule: str) -> tuple[Choice, ...]:
    """Return the answers that also hold for later calls."""
    if effect.kind is EffectKind.EDIT:  # an edit never comes again, its file does
        in_folder = Choice("s", "edits in this folder, this session"), Choice("a", "always this file")
        return (Choice("s", "this file, this session"),) if why else in_folder
    if effect.origin:
        return Choice("s", "this address, this session"), Choice("a", f"always {effect.origin}")
    by_rule = f"always {rule}"
    if effect.rule:
        by_rule = f"always this tool of the server {rule.partition('__')[0]}, while its definition stays the same"
    always = Choice("s", "this session"), Choice("a", "always (this exact call)")
    return (*always, Choice(RULE_KEY, by_rule)) if rule else always


def build_rule_question(rule: str, effect: Effect) -> Question:
    """Return the question that shows a rule in full before it holds."""
    if effect.rule:
        lines = (
            "All calls of this tool run without a question, with any arguments, until its server changes the tool.",
            "/approve lists it, /approve revoke N revokes it.",
            *((f"in {_on_one_line(effect.directory)}",) if effect.directory else ()),
            rule,
        )
        choices = (Choice("y", "yes"), Choice("n", "no"))
        return Question("Always run this tool?", lines, choices, default="n", subject=(len(lines) - 1,))
    lines = (
        "The * matches plain operands, such as file names in the working directory. Options, wildcards, pipes, "
        "redirections, protected files and files with keys still ask first.",
        "/approve lists it, /approve revoke N revokes it.",
        f"in {_on_one_line(effect.directory)}",
        rule,
    )
    choices = (Choice("y", "yes"), Choice("n", "no"))
    return Question("Always run commands of this form?", lines, choices, default="n", subject=(len(lines) - 1,))


def build_batch_question(others: tuple[PendingApproval, ...], kind: EffectKind, number: int, of: int) -> Question:
    """Return the question that shows the other pending calls in full and takes one answer for all. `kind` is the kind
    of the call which was shown before them.
    """
    lines, headings, subject, diffs = list[str](), list[int](), list[int](), list[tuple[int, int]]()
    for position, each in enumerate(others, number + 1):
        lines += (*("",) * (position > number + 1), f"{position} of {of}")
        headings.append(len(lines))
        described = build_call_lines(*each)
        marks = described.marks(len(lines))
        subject, diffs = [*subject, *marks[0]], [*diffs, *marks[1]]
        lines += described.lines
    count = len(others) + 1
    choices = (Choice("y", f"yes, all {count}"), Choice("n", "no to all"), Choice(BACK_KEY, "one by one"))
    kinds = {each.effect.kind for each in others} | {kind}
    title = {EffectKind.RUN: f"Run all {count}?", EffectKind.EDIT: f"Make all {count} edits?"}
    title = title.get(kind, "") if len(kinds) == 1 else ""
    return Question(
        title or f"Allow all {count}?",
        tuple(lines),
        choices,
        default=BACK_KEY,
        subject=tuple(subject),
        headings=tuple(headings),
        calls=tuple(each.call.id for each in others),
        diffs=tuple(diffs),
    )


class CallLines(NamedTuple):
    """Lines that describe a call, its heading first; then `subject` lines, or a diff of `diff` lines."""

    lines: tuple[str, ...]
    subject: int
    diff: int

    def marks(self, first: int) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
        """Return the indexes of the subject, and the ranges of diffs, if the heading has the index `first`."""
        subject = tuple(range(first + 1, first + 1 + self.subject))
        return subject, ((first + 1, first + 1 + self.diff),) * bool(self.diff)


def build_call_lines(call: ToolCall, effect: Effect, why: tuple[str, ...]) -> CallLines:
    """Return the lines that describe a call for its approval: each name and command stands there once."""
    verb, shown = verb_of(call.name), _on_one_line(effect.shown)
    where = f" in {_on_one_line(effect.directory)}" if effect.directory else ""
    diff = tuple(reveal(effect.diff).split("\n")) if effect.diff else ()
    subject = ()
    match effect.kind:
        case EffectKind.EDIT:
            heading = f"{verb} {shown}" + " (a new file)" * effect.diff.startswith("--- /dev/null")
        case EffectKind.READ | EffectKind.NETWORK:
            heading = f"{verb} {shown}"
        case _:
            heading = f"{verb}{' (in the background)' * effect.background}{where}"
            subject = tuple(reveal(effect.shown).splitlines())
    named = {f"{effect.directory}/{effect.shown}", effect.shown}
    does = {EffectKind.READ: "reads", EffectKind.EDIT: "changes"}.get(effect.kind, "uses")
    paths = tuple(f"{does} {_on_one_line(path)}" for path in effect.paths if path not in named)
    return CallLines((heading, *subject, *diff, *paths, *why), len(subject), len(diff))


def _on_one_line(name: str) -> str:
    """Return a path or an address with all characters visible; a line break must not begin a new line."""
    return reveal(name).replace("\n", "⏎")
