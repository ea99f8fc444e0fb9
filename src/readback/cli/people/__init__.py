"""Commands for people who decide: approvals, reviews, claims, freezes, incidents and events."""
