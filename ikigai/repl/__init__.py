"""This package is the interactive program: it connects the screen to the agents."""
