"""Threads that follow the log: delivery to subscribers, sealing, sequencing and anchoring."""
