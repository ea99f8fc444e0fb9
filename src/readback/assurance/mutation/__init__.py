"""The mutation test of contracts: changes noticed, and changes missed, by examples and history."""
