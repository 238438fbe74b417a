"""The interactive program, which connects the screen to the agents."""

# Imports inside functions: a command's module is loaded when it is typed, and what a message mentions when it is sent.
# The first screen is drawn before services, managers of agents and completions are loaded.
# `html` has its reason where it stands.
