"""Folders: changes to files, and reads of a folder's content."""
