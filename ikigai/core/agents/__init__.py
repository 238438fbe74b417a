"""Agents among agents: the tree that they form, their mail, and agents that they start."""
