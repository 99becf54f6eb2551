"""Arithmetic on rows of 32 lanes, and the table that dispatches it."""
