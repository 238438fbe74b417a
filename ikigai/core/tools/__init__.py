"""Tools as a conversation knows them: their sets, approval modes, and the tools of MCP servers and vendors."""
