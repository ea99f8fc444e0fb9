"""Contract files drafted from what a server says of its tools. A draft proposes, and decides nothing."""
