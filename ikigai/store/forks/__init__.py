"""Forks of agents: the tree that they form, and a fork with events that a log could not take."""
