"""Folders: acting on files, and reading what lies in a folder."""
