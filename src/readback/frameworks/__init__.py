"""Public: adapters that connect Readback with agent frameworks and durable engines, one module each.

Import the module of your framework. Nothing here imports a framework before its module is imported.
"""
