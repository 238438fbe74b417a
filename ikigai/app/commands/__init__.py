"""Commands that the terminal and print mode share: information, side questions, and the user's own commands."""

# Imports inside functions: reports, plots, search and prices are loaded by the command that shows them.
