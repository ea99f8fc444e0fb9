"""`readback gates`: check new contracts, recovery tables and releases before promotion. One module a command."""
