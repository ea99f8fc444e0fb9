"""Commands for deciders: approvals, reviews, claims, freezes, incidents and events."""
