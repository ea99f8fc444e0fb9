"""Wake-ups: the embedded scheduler, and procrastinate on PostgreSQL."""
