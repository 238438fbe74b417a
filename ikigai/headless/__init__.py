"""Answer once without a screen: print mode."""

# Imports inside functions: a prompt without mentions, own commands and a schema loads nothing of them. The services
# import the driver of the database while they connect, so `store.agents.agents` is imported after them.
