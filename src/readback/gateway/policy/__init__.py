"""What becomes of a tool's call: contracts in force, the gate, and what a client is told."""
