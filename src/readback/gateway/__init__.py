"""The gateway: an MCP server for agents, and an MCP client of servers with verified tools."""
