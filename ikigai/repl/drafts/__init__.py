"""Drafts: input that is not sent yet, by agent, in files for after a crash, and put aside with a key."""
