"""What the cells of chapters call: one module for each chapter, so that cells hold what teaches."""
