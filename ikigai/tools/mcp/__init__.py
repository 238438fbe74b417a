"""Connect to MCP servers: a child process speaks their protocol, and their tools run like all others."""
