"""Run the loop of one agent and the jobs that the loop starts."""

# Imports inside functions keep off the first screen what few turns need: forgetting and condensing (`forget`,
# `condenser`), repeated failures, the fallback of a model that is down, the report of the context.
