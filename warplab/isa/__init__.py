"""PTX as text and as a syntax tree: what reads it, for whoever needs it. Depends on nothing of this project."""
