"""Tools with which a model acts on the machine of the user."""

# Imports inside functions: tools are offered before any runs, so what one call needs is loaded by it.
#   httpx, bs4, markdownify, resource     the web
#   tree_sitter, tree_sitter_bash         commands of the shell, to judge them
#   difflib                               diffs and hints of an edit
#   tomllib                               names of files that a tool does not read unasked
#   ctypes                                the end of a child with its parent
#   approval, mcp.elicitation             questions to the user
