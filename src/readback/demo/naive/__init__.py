"""The naive agent: the answers of its tools, and its reports."""
