"""This package connects to MCP servers: a child process speaks their protocol, and their tools run as all others do."""
