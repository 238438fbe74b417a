"""The interactive program, which connects the screen to the agents."""

# Imports inside functions: the first screen is drawn before services, managers of agents and completions are loaded.
# `html` has its reason where it stands.
