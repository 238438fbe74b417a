"""One run of the program: its services, database, first agent, profiles and settings."""

# Imports inside functions: a start loads database, models and tools in the background, behind the first screen.
#   spool, unsaved events    a database that is away
#   json                     a profile of the project
#   shutil                   the pictures of an ephemeral agent
