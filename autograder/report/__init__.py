"""A report for a terminal, a browser and a program."""
