"""What both clients and the command line share, an operation a module."""
