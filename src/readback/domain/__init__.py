"""The nouns: pure values and tables. Every room above uses them; they do no I/O and know no clock."""
