"""The agents that one program has open: their loops, their tree, their mail, and the views of them."""

# Imports inside functions: the loop and its services are loaded while the user reads or types; unsaved events and
# recalled turns when there are any.
