"""Decision types: an envelope enforced round one action, from its file to its episode."""
