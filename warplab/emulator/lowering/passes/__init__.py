"""What is found out about a function's PTX, or changed in it, before it is lowered."""
