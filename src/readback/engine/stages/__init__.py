"""The stages of an action, one module a stage. The engine alone knows their order."""
