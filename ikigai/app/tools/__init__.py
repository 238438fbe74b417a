"""The tools of a run: their specs and modules, MCP servers, and the keys that their results never show."""

# Imports inside functions: a start has the specs of the tools; tools and MCP servers are loaded with the first call.
