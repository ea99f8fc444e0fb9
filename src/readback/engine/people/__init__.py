"""A person's word: approvals, decisions in review, words about claims. Each is an event, and verifies nothing."""
