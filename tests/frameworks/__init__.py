"""The test bed of the framework adapters: one scenario list, one driver a framework, acts counted in a toy system."""
