"""The judge's truth: submissions and mutants with the verdict that each must get."""
