"""One client's session: requests, lists, names and notifications."""
