"""Contract files drafted from a server's tool list. A draft proposes, and decides nothing."""
