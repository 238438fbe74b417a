"""An agent without IO, clock, randomness or threads.

Reading order: events (the nouns, and their rows), state (the meaning of the log, decide and work, the window, loading),
request (requests to models, their size and cost, and replies), views (text for users), commands (input of users: slash
commands, keys, mentions), agents (the tree, mail, subagents), context (what is summarized, and what filters forget),
tools (what models may do), search (words, queries and snippets), relocation (events in another log), text and secrets
(what is made safe, and what is redacted), ports (the protocols that the loop needs of the packages around it).
"""
