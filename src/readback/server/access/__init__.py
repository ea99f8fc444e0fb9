"""Authentication and its limits: tokens, OIDC, the names of the server, and the rate of requests."""
