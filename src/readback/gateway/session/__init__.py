"""One client's session: its requests, lists, names and notifications."""
