"""Golden texts: how a test file writes them again after an intended change."""
