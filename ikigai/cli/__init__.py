"""Parse the command line, run the subcommands and choose exit codes."""

# Imports inside functions: the subcommand that runs loads its own modules, and none of another's. Help, completion, the
# doctor, misspelled words and errors load theirs when they are shown. importlib loads the subcommand by its name,
# msgspec is not needed for --help, and readline edits the line of a question.
