"""Tests of benchmarks whose numbers have a truth of their own."""
