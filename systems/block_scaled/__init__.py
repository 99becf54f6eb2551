"""Matrix products whose operands have a scale per block of 32 or 16 elements, on Blackwell's tensor cores."""
