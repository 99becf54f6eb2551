"""Loads, stores and atomics: addresses, sectors, wavefronts, shadow memory.

This folder has many files because each rule of what an access costs, and of what is a race, has a module of its own.
"""
