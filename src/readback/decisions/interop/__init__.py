"""Readers of other systems' files. What they read is evidence, never a verdict; they refuse rather than guess."""
