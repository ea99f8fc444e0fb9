"""Commands of the HTTP server: `readback serve` and `readback token`."""
