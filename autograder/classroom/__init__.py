"""A whole class at once: what was handed in is found, graded side by side, and kept in one record."""
