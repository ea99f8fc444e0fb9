"""The text of an expression: its words, its tree and its reader."""
