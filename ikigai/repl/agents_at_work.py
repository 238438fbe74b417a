"""Say which agents of this process ask, work, hold mail or have ended a turn while another one is on screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ikigai.core.errors import Rejected
from ikigai.core.events.events import Ending

if TYPE_CHECKING:
    from ikigai.app.agents.agent_manager import OpenAgent
    from ikigai.app.agents.mailbox import Mailbox

MAX_NAMED_AGENTS = 2
"""Agents that the status line names for each state; it counts the others."""


def find_asking(open_agents: Sequence[OpenAgent], on_screen: OpenAgent | None, name: str) -> OpenAgent:
    """Return the agent called `name` that asks behind the one on screen; with "" the one that has waited longest.

    Raise Rejected if none does.
    """
    asking = [each for each in open_agents if each is not on_screen and each.view.questions]
    matches = [each for each in asking if name in ("", each.agent.name)]
    if not matches:
        raise Rejected(
            f"{name} is not waiting for an answer." if name else "No background agent is waiting for an answer.",
            f"There are: {', '.join(each.agent.name for each in asking)}" if asking else "",
        )
    return matches[0]


def describe_background(others: Sequence[OpenAgent], mailbox: Mailbox | None) -> tuple[str, bool]:
    """Return the states of agents that are not on screen, for the status line, and whether one of them presses."""
    asking = [each for each in others if each.view.questions]
    refused = [each for each in others if mailbox and each.agent.id in mailbox.refused]
    held = [each for each in others if mailbox and each not in refused and mailbox.is_held(each.agent.id)]
    waiting = [*asking, *held, *refused]
    ended = [each for each in others if each.view.unseen_ending and each not in waiting and not each.busy]
    failed = [each for each in ended if each.view.unseen_ending is Ending.FAILED]
    done = [each for each in ended if each.view.unseen_ending is Ending.COMPLETED]
    busy = sum(each.memory.open is not None and not each.view.questions for each in others)
    parts = [_name_agents(asking, "asks: /answer"), _name_agents(held, "held: /send")]
    parts.append(_name_agents(refused, "cannot receive messages: /switch"))
    parts += [_name_agents(failed, "failed"), _name_agents(done, "done"), f"{busy} running" if busy else ""]
    return " · ".join(filter(None, parts)), bool(waiting or failed)


def describe_work(open_agents: Sequence[OpenAgent], past: bool) -> str:
    """Return in a clause which of these agents work or wait for the user, or did; "" if none do."""
    asking = [each for each in open_agents if each.view.questions]
    running = [each for each in open_agents if each.busy and each not in asking]
    if past:
        was, waited = "was working" if len(running) == 1 else "were working", "waited for your answer"
    else:
        was = "is still working" if len(running) == 1 else "are still working"
        waited = "waits for your answer" if len(asking) == 1 else "wait for your answer"
    return ", ".join(filter(None, (_name_agents(asking, waited), _name_agents(running, was))))


def _name_agents(open_agents: Sequence[OpenAgent], what: str) -> str:
    if not open_agents:
        return ""
    names = ", ".join(each.agent.name for each in open_agents[:MAX_NAMED_AGENTS])
    more = len(open_agents) - MAX_NAMED_AGENTS
    return f"{names}{f' and {more} more' if more > 0 else ''} {what}"
