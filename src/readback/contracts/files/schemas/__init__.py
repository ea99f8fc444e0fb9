"""JSON Schemas of arguments: read, written, and filled with samples."""
