"""The truth that tests and benchmarks share: programs with known answers, submissions with known verdicts."""
