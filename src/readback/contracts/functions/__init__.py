"""Python functions in a contract: made into handlers, their arguments, and their digests."""
