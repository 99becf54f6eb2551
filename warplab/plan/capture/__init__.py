"""From a submission to plans: the child process that runs host code, and what it records instead of launching.

This folder has many files because a capture has many small parts that must not know each other: protocol, limits,
compilers, and a recorder for each thing that host code may call.
"""
