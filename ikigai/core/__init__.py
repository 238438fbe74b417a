"""The core: what an agent is, without IO, clock, randomness or threads.

Reading order: messages and events (the nouns), codec (a row), memory, window and fold (what the log means), inputs and
machine (decide and work) with settings and returning, lineage and loading (walk backwards, play forwards), request and
tokens (what a model is sent, and how big it is), reply and transcript (what comes in, and what is shown), arguments,
meanings and commands (what can be typed), bounds (what a project tightens), ports (what the loop needs of the world).
"""
