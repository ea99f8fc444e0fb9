"""Public: adapters for agent frameworks, over `readback.kit`, and for durable engines.

Import the module of your framework. Each module imports its own framework only, and has an extra of its own.
"""
