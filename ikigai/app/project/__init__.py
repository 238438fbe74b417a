"""The project in the working directory: trust, instructions, settings, and its MCP servers."""
