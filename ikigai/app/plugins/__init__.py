"""Agent Plugins: folders that bring skills and MCP servers."""

# Imports inside functions: few plugins name a server by a number, which `ipaddress` reads.
