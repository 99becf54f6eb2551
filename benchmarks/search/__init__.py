"""Searches of templated products on a GPU: by the clock, and raced against the vendor's library."""
