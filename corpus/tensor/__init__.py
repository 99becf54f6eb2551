"""What an H200's tensor cores computed, bit by bit, and the probes that asked it."""
