"""Run the smallest prompt: prompt_toolkit alone; with a DSN as its argument, after connecting to that."""

import sys

from prompt_toolkit import PromptSession

if len(sys.argv) > 1:
    import psycopg

    connection = psycopg.connect(sys.argv[1])

PromptSession("❯ ").prompt()
