"""Public: adapters for agent frameworks and durable engines.

Import the module of your framework. Each module imports its own framework only.
"""
