"""How agents reach us without Python: a gateway in front of MCP servers, and hooks of coding agents."""
