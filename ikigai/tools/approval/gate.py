"""Decide if a call may run: by the policy, by earlier approvals, and by asking the user."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ikigai.core.errors import IkigaiError
from ikigai.core.events.events import ApprovalDecided, Choices
from ikigai.core.events.messages import ToolCall
from ikigai.core.ports import Ask, LiveSettings, StartDecision
from ikigai.core.tools.approval_mode import ApprovalMode
from ikigai.core.tools.tool_denial import denial
from ikigai.core.views.questions import QuestionAnswer
from ikigai.tools.approval.allowlist import Allowlist
from ikigai.tools.approval.approval_questions import (
    BACK_KEY,
    NO_KEY,
    RULE_KEY,
    TOGETHER_KEY,
    build_batch_question,
    build_question,
    build_rule_question,
)
from ikigai.tools.approval.batch import ApprovalBatch, PendingApproval
from ikigai.tools.approval.invisible_characters import describe_hidden
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
    origin_fingerprint,
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
        """Ask about the call. A change of the settings that allows it meanwhile is also an answer."""
        tasks = (
            asyncio.ensure_future(self._ask_user(pending, ApprovalMode.of(settings.values), ask, batch)),
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

    async def _ask_user(
        self, pending: PendingApproval, mode: ApprovalMode, ask: Ask, batch: ApprovalBatch
    ) -> StartDecision:
        """Ask about the call, unless it was answered together with others and is unchanged since."""
        from ikigai.tools.approval.allow_hints import describe_remedy

        id = pending.call.id
        remedy = describe_remedy(mode, pending.call, pending.effect, self._scope, self._allowlist)
        earlier = batch.take_answer(id)
        rule = self._offer_rule(pending.call, pending.effect)
        try:
            if earlier and not earlier.allowed:
                return _refuse_all(id, earlier.others)
            if earlier and earlier.of.is_same(pending):
                return StartDecision(decision=ApprovalDecided(id, True, _decided_by(earlier.others)))
            while True:
                terms = {"changed": earlier is not None, "together": batch.can_answer_together(pending)}
                answer = await ask(build_question(*pending, *batch.position(id), rule=rule, remedy=remedy, **terms))
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
        if effect.kind is EffectKind.EDIT and not edit_doubts(effect, self._scope):
            return folder_fingerprint(self._scope)
        return _lasting_key(call, effect)

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
                key = _lasting_key(call, effect)
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


def _lasting_key(call: ToolCall, effect: Effect) -> str:
    """Return the identity of what a lasting yes to this call approves: a file, an origin, or exactly the call."""
    if effect.kind is EffectKind.EDIT:
        return file_fingerprint(effect)
    return origin_fingerprint(call, effect) if effect.origin else call_fingerprint(call, effect)


def _refuse_all(id: str, others: int) -> StartDecision:
    return StartDecision(denial(others=others), ApprovalDecided(id, False, _decided_by(others)))


def _decided_by(others: int) -> str:
    """Return who decided, for an answer to several calls."""
    return f"user, with {others} other{'s' * (others != 1)}"
