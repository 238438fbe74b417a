"""Put the other packages together, and manage many agents in one program."""

# Imports inside functions, so that the first screen does not wait for what comes behind it or never:
#   the loop, its services, tools and MCP servers     loaded while the user reads or types
#   spool, unsaved events, redaction, transfer        a database that is away, or an import
#   reports, search, recall, plots, export, prices    the command that shows them
#   csv, io, shutil, tempfile             the same commands
#   images, pypdf, mentions                           the message that names such a file
#   json, platform                                    a profile of the project, and the notice of an update
