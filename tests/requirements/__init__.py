"""What the specifications ask for, and whether a test holds it, both ways."""
