"""This package holds an agent's memory: the fold, the window, and the machine that decides."""
