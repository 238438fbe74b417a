"""The core: what an agent is, without IO, clock, randomness or threads.

Reading order: messages and events (the nouns), codec (a row), state (what the log means, decide and work, the window,
loading), request and tokens (what a model is sent, and how big it is), views (what is shown), commands (what can be
typed), ports (what the loop needs of the packages around it).
"""
