"""This module writes the line that is left in the terminal when the user leaves."""

import argparse
import shlex

from ikigai.core import tokens
from ikigai.core.sanitize import clean_line
from ikigai.core.views.usage_totals import UsageTotals, format_money


def exit_message(name: str, arguments: argparse.Namespace, at_work: str, spent: UsageTotals) -> str:
    """Return the line: what was interrupted, the command that continues the conversation, the usage of this run.

    `at_work` says who was at work when the user left. The command has the options that choose configuration and
    database.
    """
    chosen = {f"--{flag}": getattr(arguments, flag) for flag in ("config", "db")}
    options = [word for option in chosen.items() if option[1] for word in option]
    command = shlex.join(["ikigai", *options, "-r", name])
    cost = ""
    if spent.requests:
        sent, received = tokens.format_tokens(spent.input), tokens.format_tokens(spent.output)
        cost = " · ".join(filter(None, (f"{sent} tokens in, {received} out", format_money(spent))))
        cost = f" (this run: {cost})"
    interrupted = f"Interrupted: {at_work}. " if at_work else ""
    return clean_line(f"{interrupted}To continue {name}: {command}{cost}")
