"""Tools of servers, as listed by the servers."""
