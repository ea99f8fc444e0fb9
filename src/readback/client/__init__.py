"""The Python clients: the modules behind the package's public names."""
