"""The gateway: an MCP server to agents, and an MCP client to the servers whose tools it verifies."""
