"""Commands about actions: run, submit, list, show, explain and belief."""
