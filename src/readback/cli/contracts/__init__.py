"""Commands about contract files, packs, recovery tables and drills."""
