"""Destinations of messages: webhooks, commands, files and callables."""
