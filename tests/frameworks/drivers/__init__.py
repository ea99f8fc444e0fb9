"""One module a framework; each holds one subclass of `Driver`."""
