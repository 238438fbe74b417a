"""This module decides if a call may run: by the policy, by earlier approvals, and by asking the user."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from ikigai.core.approval_mode import ApprovalMode
from ikigai.core.errors import IkigaiError
from ikigai.core.events import ApprovalDecided, Choices
from ikigai.core.messages import ToolCall
from ikigai.core.ports import Ask, LiveSettings, StartDecision
from ikigai.core.questions import Choice, Question, QuestionAnswer
from ikigai.core.tool_denial import denial
from ikigai.tools.approval.allowlist import Allowlist
from ikigai.tools.approval.batch import ApprovalBatch, PendingApproval
from ikigai.tools.approval.invisible_characters import describe_hidden, reveal
from ikigai.tools.approval.path_policy import PathScope
from ikigai.tools.approval.policy import (
    Allow,
    Approval,
    ApprovalLifetime,
    AskUser,
    Deny,
    call_fingerprint,
    decide_approval,
    deny_unasked,
    edit_doubts,
    file_fingerprint,
    folder_fingerprint,
    takes_rule,
)
from ikigai.tools.base import Effect, EffectKind


class StandingApprovalStore(Protocol):
    """Store of the standing approvals."""

    def known(self) -> Mapping[str, Approval]: ...

    def approve(self, fingerprint: str, call: ToolCall, effect: Effect) -> None:
        """Store an approval. Raise IkigaiError if it cannot be stored."""
        ...

    def rules(self, directory: str) -> Sequence[str]:
        """Return the rules that were approved for commands in the directory."""
        ...

    def approve_rule(self, rule: str, call: ToolCall, directory: str) -> None:
        """Store a rule. Raise IkigaiError if it cannot be stored."""
        ...


class ApprovalGate:
    """Gate of one run of the program: approvals for this session hold for all its agents."""

    def __init__(self, scope: PathScope, allowlist: Allowlist, standing: StandingApprovalStore) -> None:
        self._scope, self._allowlist, self._standing = scope, allowlist, standing
        self._session: dict[str, Approval] = {}

    async def decide(
        self, call: ToolCall, effect: Effect, settings: LiveSettings, ask: Ask, batch: ApprovalBatch | None = None
    ) -> StartDecision:
        """Return the decision about the call, with the event to store. `batch` are the calls of the turn."""
        batch = batch or ApprovalBatch()
        verdict = self.judge(call, effect, settings.values)
        if isinstance(verdict, AskUser):
            async with batch.ask_alone(PendingApproval(call, effect, verdict.why)):
                # an answer to another call, or another mode, may have settled this one
                verdict = self.judge(call, effect, settings.values)
                if isinstance(verdict, AskUser):
                    pending = PendingApproval(call, effect, verdict.why)
                    return await self._ask_until_allowed(pending, settings, ask, batch)
        batch.will_not_ask(call.id)
        return _by_policy(call, verdict)

    async def _ask_until_allowed(
        self, pending: PendingApproval, settings: LiveSettings, ask: Ask, batch: ApprovalBatch
    ) -> StartDecision:
        """Ask about the call. A change of the settings that allows it meanwhile is an answer, too."""
        tasks = (
            asyncio.ensure_future(self._ask_user(pending, ask, batch)),
            asyncio.ensure_future(self._wait_until_allowed(pending, settings)),
        )
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            decision = next(task for task in tasks if task.done()).result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        verdict = self.judge(pending.call, pending.effect, settings.values)
        return _by_policy(pending.call, verdict) if isinstance(verdict, Deny) else decision

    async def _wait_until_allowed(self, pending: PendingApproval, settings: LiveSettings) -> StartDecision:
        call, effect, _ = pending
        while True:
            verdict = self.judge(call, effect, settings.values)
            if isinstance(verdict, Allow):
                return _by_policy(call, verdict)
            await settings.changed()

    def judge(self, call: ToolCall, effect: Effect, settings: Choices) -> Allow | AskUser | Deny:
        """Return the verdict of the policy on the call, given the earlier approvals."""
        has_rules = effect.rule or takes_rule(call, effect)
        rules = self._standing.rules(effect.directory) if has_rules else ()
        mode = ApprovalMode.of(settings)
        return decide_approval(mode, call, effect, self._scope, self._allowlist, self._lasting(), rules)

    def _lasting(self) -> dict[str, Approval]:
        return {**self._standing.known(), **self._session}

    async def _ask_user(self, pending: PendingApproval, ask: Ask, batch: ApprovalBatch) -> StartDecision:
        """Ask about the call, unless it was answered together with others and is unchanged since."""
        id = pending.call.id
        earlier = batch.take_answer(id)
        rule = self._offer_rule(pending.call, pending.effect)
        try:
            if earlier and not earlier.allowed:
                return _refuse_all(id, earlier.others)
            if earlier and earlier.of.is_same(pending):
                return StartDecision(decision=ApprovalDecided(id, True, _decided_by(earlier.others)))
            while True:
                question = build_question(*pending, *batch.position(id), changed=earlier is not None, rule=rule)
                if not batch.can_answer_together(pending):
                    choices = tuple(choice for choice in question.choices if choice.key != TOGETHER_KEY)
                    question = msgspec.structs.replace(question, choices=choices)
                answer = await ask(question)
                if answer.key == TOGETHER_KEY:
                    number, of = batch.position(id)
                    answer = await ask(build_batch_question(batch.others(id), pending.effect.kind, number, of))
                    if answer.key == BACK_KEY:
                        continue
                    return self._answer_all(id, answer.key == "y", batch)
                if answer.key == NO_KEY:
                    return self._answer_all(id, False, batch)
                if answer.key == RULE_KEY:
                    if (await ask(build_rule_question(rule, pending.effect))).key != "y":
                        continue
                    return self._approve_rule(rule, pending)
                return self._apply_answer(pending, answer)
        finally:
            batch.mark_answered(id)

    def _offer_rule(self, call: ToolCall, effect: Effect) -> str:
        """Return the rule that the question offers; "" for none."""
        if effect.rule:
            return effect.rule
        if not takes_rule(call, effect) or describe_hidden(effect.shown):
            return ""
        from ikigai.tools.approval.star_rules import offer_rule

        return offer_rule(effect.shown, self._scope, effect.directory)

    def _approve_rule(self, rule: str, pending: PendingApproval) -> StartDecision:
        call, effect, _ = pending
        return self._keep(
            lambda: self._standing.approve_rule(rule, call, effect.directory), call, f"user, for always: {rule}"
        )

    def _keep(self, store: Callable[[], None], call: ToolCall, by: str) -> StartDecision:
        """Store a lasting approval and approve the call; one whose approval cannot be revoked later is not run now."""
        try:
            store()
        except IkigaiError as error:
            message = f"Not run: the approval could not be stored. {error}"
            return StartDecision(message, ApprovalDecided(call.id, False, "policy", message))
        return StartDecision(decision=ApprovalDecided(call.id, True, by))

    def _session_key(self, call: ToolCall, effect: Effect) -> str:
        """Return the identity of what a yes for the session approves."""
        if effect.kind is not EffectKind.EDIT:
            return call_fingerprint(call, effect)
        return file_fingerprint(effect) if edit_doubts(effect, self._scope) else folder_fingerprint(self._scope)

    def _answer_all(self, id: str, allowed: bool, batch: ApprovalBatch) -> StartDecision:
        others = batch.answer_all(id, allowed)
        if not allowed:
            return _refuse_all(id, others)
        return StartDecision(decision=ApprovalDecided(id, True, _decided_by(others)))

    def _apply_answer(self, pending: PendingApproval, answer: QuestionAnswer) -> StartDecision:
        """Return the decision that follows from the answer of the user to this one call."""
        call, effect, why = pending
        if answer.not_asked:
            message = deny_unasked(AskUser(why)).why
            return StartDecision(message, ApprovalDecided(call.id, False, "policy", message))
        match answer.key:
            case "y":
                return StartDecision(decision=ApprovalDecided(call.id, True, "user, once"))
            case "s":
                key = self._session_key(call, effect)
                self._session[key] = Approval(ApprovalLifetime.SESSION, effect.scripts)
                return StartDecision(decision=ApprovalDecided(call.id, True, "user, for this session"))
            case "a":
                key = file_fingerprint(effect) if effect.kind is EffectKind.EDIT else call_fingerprint(call, effect)
                kept = self._keep(lambda: self._standing.approve(key, call, effect), call, "user, for always")
                if not kept.refusal:
                    self._session.pop(key, None)  # it may hold for an older script
                return kept
            case "r" if answer.words:
                return StartDecision(denial(answer.words), ApprovalDecided(call.id, False, "user", answer.words))
            case _:
                return StartDecision(denial(), ApprovalDecided(call.id, False, "user"))


def _by_policy(call: ToolCall, verdict: Allow | Deny) -> StartDecision:
    """Return the decision that needs no answer of the user."""
    match verdict:
        case Allow(why):
            return StartDecision(decision=ApprovalDecided(call.id, True, why))
        case Deny(why):
            return StartDecision(why, ApprovalDecided(call.id, False, "policy", why))


def _refuse_all(id: str, others: int) -> StartDecision:
    return StartDecision(denial(others=others), ApprovalDecided(id, False, _decided_by(others)))


def _decided_by(others: int) -> str:
    """Return who decided, for an answer to several calls."""
    return f"user, with {others} other{'s' * (others != 1)}"


QUESTION_TITLES = {
    EffectKind.READ: "Read it?",
    EffectKind.EDIT: "Make this edit?",
    EffectKind.NETWORK: "Fetch it?",
    EffectKind.RUN: "Run it?",
}


TOGETHER_KEY, NO_KEY, BACK_KEY = "t", "x", "o"
"""Keys for several calls: show all and answer together, no to all, and back to one by one."""
RULE_KEY = "p"
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
) -> Question:
    """Return the question about a call: the whole command or diff with all characters visible, its place, the reasons.

    `number` and `of` are its position among several calls. `rule` is offered for later.
    """
    lines = (*describe_call(call, effect, why), *((CHANGED_SINCE_SHOWN,) if changed else ()))
    several = (
        (Choice(TOGETHER_KEY, f"together, all {of - number + 1}"), Choice(NO_KEY, "no to all")) if number < of else ()
    )
    choices = (
        Choice("y", "yes"),
        *_lasting_choices(effect, why, rule),
        Choice("n", "no"),
        Choice("r", "no, because…", "Why not? The model sees your answer."),
        *several,
    )
    title = QUESTION_TITLES.get(effect.kind, "Allow it?")
    subject = tuple(range(1, 1 + _subject_lines(effect)))
    return Question(f"{number} of {of} · {title}" if of > 1 else title, lines, choices, default="n", subject=subject)


def _lasting_choices(effect: Effect, why: tuple[str, ...], rule: str) -> tuple[Choice, ...]:
    """Return the answers that also hold for later calls."""
    if effect.kind is EffectKind.EDIT:  # an edit never comes again, its file does
        in_folder = Choice("s", "all edits in this folder, this session"), Choice("a", "always this file")
        return (Choice("s", "this file, this session"),) if why else in_folder
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
    """Return the question that shows the other pending calls in full and takes one answer for all. `kind` is that of
    the call which was shown before them.
    """
    lines, subject = list[str](), list[int]()
    for position, each in enumerate(others, number + 1):
        lines += (*("",) * (position > number + 1), f"{position} of {of}")
        subject += range(len(lines) + 1, len(lines) + 1 + _subject_lines(each.effect))
        lines += describe_call(*each)
    count = len(others) + 1
    choices = (Choice("y", f"yes, all {count}"), Choice("n", "no to all"), Choice(BACK_KEY, "one by one"))
    kinds = {each.effect.kind for each in others} | {kind}
    title = {EffectKind.RUN: f"Run all {count}?", EffectKind.EDIT: f"Make all {count} edits?"}
    title = title.get(kind, "") if len(kinds) == 1 else ""
    return Question(title or f"Allow all {count}?", tuple(lines), choices, default=BACK_KEY, subject=tuple(subject))


def describe_call(call: ToolCall, effect: Effect, why: tuple[str, ...]) -> tuple[str, ...]:
    """Return the lines that describe a call for its approval."""
    where = f"in {_on_one_line(effect.directory)}" if effect.directory else ""
    shown = reveal(effect.diff) if effect.diff else _visible_subject(effect)
    verb = {EffectKind.READ: "reads", EffectKind.EDIT: "changes"}.get(effect.kind, "uses")
    paths = [f"{verb} {_on_one_line(path)}" for path in effect.paths if _on_one_line(path) not in shown]
    background = " (in the background)" if effect.background else ""
    return (f"{call.name}{background} {where}".strip(), *shown.splitlines(), *paths, *why)


def _visible_subject(effect: Effect) -> str:
    return reveal(effect.shown) if effect.kind is EffectKind.RUN else _on_one_line(effect.shown)


def _subject_lines(effect: Effect) -> int:
    """Return how many lines of a call's description are its command, address or path; a diff tells its own."""
    return 0 if effect.diff else len(_visible_subject(effect).splitlines())


def _on_one_line(name: str) -> str:
    """Return a path or an address with all characters visible; a line break must not begin a new line."""
    return reveal(name).replace("\n", "⏎")
