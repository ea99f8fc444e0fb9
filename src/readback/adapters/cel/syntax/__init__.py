"""The syntax of expressions: tokens, parser and tree."""
