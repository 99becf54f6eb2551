"""The table of PTX instructions: a module a family, with a row for each instruction; `table.py` joins them."""
