"""The log's head: whose signature counts, how it goes on, where it is kept outside, and what it confirms."""
