"""An agent without IO, clock, randomness or threads.

Reading order: messages and events (the nouns), codec (a row), state (the meaning of the log, decide and work, the
window, loading), request and tokens (requests to models, and their sizes), views (text for users), commands (input of
users), agents (the tree, mail, subagents), forget (what filters remove), condense (when and what is summarized), search
(words, queries and snippets), transfer (events in another log), ports (the protocols that the loop needs of the
packages around it).
"""
