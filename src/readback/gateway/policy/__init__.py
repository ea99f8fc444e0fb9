"""Policy for tool calls: active contracts, the gate, and results for clients."""
