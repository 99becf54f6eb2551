"""The child process that runs functions by name, in a sandbox or without one, and its messages."""
