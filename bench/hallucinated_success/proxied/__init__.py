"""A task for programs in another process: over HTTP, and as a tool of an MCP server behind a proxy."""
