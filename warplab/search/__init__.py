"""Searches among choices, each of which costs a trial: who proposes, what is remembered, and a product to choose for."""
