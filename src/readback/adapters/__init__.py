"""The outside world, one module for each way of keeping a port's promise. Only `bootstrap` imports from here."""
