"""People's decisions: approvals, reviews, and statements about claims. Each is an event, and verifies nothing."""
