"""Tests of the judge and its commands.

This folder has many files because each tests one promise of a grade, whichever parts of the judge keep it; what has a
package of its own (`classroom`, `platforms`, `report`, `spec`, `worker`) has a folder.
"""
