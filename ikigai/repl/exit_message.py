"""Write the lines that stay in the terminal when the user leaves."""

import argparse
import shlex

from ikigai.core.text import tokens
from ikigai.core.text.sanitize import clean_line
from ikigai.core.views.usage_totals import UsageTotals, format_money
from ikigai.store.agents.agents import Agent
from ikigai.system.own_command import own_command


def exit_message(agent: Agent, arguments: argparse.Namespace, at_work: str, spent: UsageTotals) -> str:
    """Return the command that continues the conversation with the usage of this run, on a line that fits 80 columns
    as a rule; before it, what was interrupted: `at_work` says who was at work when the user left.

    The command has the options that choose configuration and database.
    """
    chosen = {f"--{flag}": getattr(arguments, flag) for flag in ("config", "db", "schema")}
    options = [word for option in chosen.items() if option[1] for word in option]
    command = shlex.join([own_command(), *options, "-r", agent.name])
    goes_on = "This conversation was not kept." if agent.ephemeral else f"To continue: {command}"
    cost = ""
    if spent.input or spent.output:
        sent, received = tokens.format_tokens(spent.input), tokens.format_tokens(spent.output)
        cost = f" ({', '.join(filter(None, (f'{sent} tokens in', f'{received} out', format_money(spent))))})"
    lines = (f"Interrupted: {at_work}." if at_work else "", goes_on + cost)
    return "\n".join(clean_line(line) for line in lines if line)
