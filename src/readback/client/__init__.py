"""What Python users import, and the two drivers that do what the engine asks for."""
