"""Keeps processes that read a stranger's bytes from the machine: files, system calls, memory."""
