"""This package runs the loop of one agent and the jobs that the loop starts."""
