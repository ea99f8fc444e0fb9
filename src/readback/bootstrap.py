"""The composition root: the only module that chooses adapters. The SDK calls it."""
