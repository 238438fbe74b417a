"""Carry out /limit: show the spending caps and the spending under them, and change them for this run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ikigai.agent.spending_guard import day_start
from ikigai.app.json_records.usage_records import CapFields, LimitsRecord
from ikigai.core.commands.limit import parse_limit
from ikigai.core.errors import Rejected
from ikigai.core.request import spending
from ikigai.core.request.spending import CAP_SCOPES, NOTHING, Caps, CapScope, Money, SpendingQuery

if TYPE_CHECKING:
    from ikigai.app.agents.agent_manager import AgentManager
    from ikigai.app.run.services import Services
    from ikigai.core.state.memory import Memory

NO_CAPS = "There are no spending caps. /limit day 5 stops requests that could bring this day above $5.00."


async def read_used(services: Services, memory: Memory) -> dict[CapScope, Money]:
    """Return what the caps count now for this agent: spent, and reserved by all programs."""
    run, opened = services.spending, memory.open
    query = SpendingQuery(
        run.id if run else "", day_start(), opened.first if opened else None, agents=True, turns=bool(opened)
    )
    spent = await services.database.usage.spent(memory.agent, query)
    own = run.under_way(memory.agent) if run else NOTHING
    used: dict[CapScope, Money] = {"run": run.used if run else NOTHING}
    for scope, amount in spent.items():
        used[scope] = amount + own
    return used


def change_caps(services: Services, manager: AgentManager | None, argument: str) -> None:
    """Change a cap of this run as /limit was told. Raise WrongArgument, and Rejected for one that is looser than the
    project's.
    """
    change = parse_limit(argument)
    if change is None:
        return
    caps = change.applied(services.spending.caps if services.spending else Caps())
    if any(_is_looser(caps, key, most) for key, most in services.run.project_limits.caps.items()):
        raise Rejected(
            f"The project of this folder caps {spending.SCOPE_WORDS[change.scope]}: /limit can only lower it here.",
            "Its file is .ikigai/config.toml; /trust no ignores it from the next start on.",
        )
    from ikigai.app.agents.agent_services import guard_spending

    services.limit_spending(caps)
    for member in manager.agents.values() if manager else ():
        if member.agent_loop.billing.guard is None:
            guard_spending(services, member.agent_loop, member.agent, member.log, member.view)


def _is_looser(caps: Caps, key: str, most: float) -> bool:
    """Return True if the project allows less under this key of [limits]."""
    scope, _, unit = key.partition("_")
    own = getattr(getattr(caps, scope), unit)
    return not 0 < own <= most


def format_limits(caps: Caps, used: Mapping[CapScope, Money]) -> str:
    """Return the answer of /limit: a line for each cap with what it counts."""
    lines = list[str]()
    for scope in caps.scopes:
        cap, amount = caps.of(scope), used.get(scope, NOTHING)
        parts = [spending.format_money(cap, amount, in_tokens=False)] if cap.usd else []
        parts += [spending.format_money(cap, amount, in_tokens=True)] if cap.tokens else []
        lines.append(f"{scope:<6} {', '.join(parts)}")
    return "\n".join(lines) or NO_CAPS


def limits_record(caps: Caps, used: Mapping[CapScope, Money]) -> LimitsRecord:
    """Return the caps and what they count as a JSON object."""

    def fields(scope: CapScope) -> CapFields:
        cap, amount = caps.of(scope), used.get(scope, NOTHING)
        return CapFields(
            usd=float(cap.usd) or None, tokens=cap.tokens or None, used_usd=float(amount.usd), used_tokens=amount.tokens
        )

    return LimitsRecord(**{scope: fields(scope) for scope in CAP_SCOPES})


def day_line(caps: Caps, used: Mapping[CapScope, Money]) -> str:
    """Return the line of /cost about the cap of the day; "" without one."""
    if not caps.day:
        return ""
    text = format_limits(Caps(day=caps.day), used).removeprefix("day").strip()
    return f"Used of today's cap: {text}, with requests under way."
