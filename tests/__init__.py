"""The proof. Each folder says what it proves; a test bears the ids of the requirements that it settles."""
