"""A fleet under fire: real processes on a real PostgreSQL, that are killed, cut off and set apart; then a checker asks
what the clients saw, what the systems of record contain and what the log says, and whether these three agree.
"""
