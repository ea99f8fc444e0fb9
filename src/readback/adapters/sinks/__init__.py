"""Where messages go: webhooks, commands, files and callables."""
