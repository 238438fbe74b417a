"""This module says which words turn a setting on or off where it is given as text."""

SWITCH_WORDS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
"""Values of the words, in lower case."""
