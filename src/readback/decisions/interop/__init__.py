"""Readers of other systems' files. The content is evidence, never a verdict. Readers refuse in doubt."""
