"""Searches among choices, each of which costs a trial: who proposes, what is kept, and a product to choose for."""
