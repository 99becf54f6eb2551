"""Loads, stores and atomics: addresses, sectors, wavefronts, shadow memory."""
