"""Tests of the labs.

This folder has many files because each tests one promise that all labs keep, or what one kind of lab alone asks for.
"""
