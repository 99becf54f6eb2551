"""What measures this project; README.md says what each command needs and writes.

This folder has many files because nearly each is a command of its own, `python -m benchmarks.<name>`, which results,
documents and the Makefile name; what one command needs several files for has a folder.
"""
