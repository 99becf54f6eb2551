"""From a submission to plans: the child process that runs host code, and what it records instead of launching."""
