"""What the cells of chapters call: one module per chapter, so that cells hold what teaches.

This folder has many files because each chapter and each appendix has a module, named after it.
"""
