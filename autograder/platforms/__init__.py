"""Grades in the forms that Gradescope, Canvas, Moodle, nbgrader, otter and PrairieLearn read, and what they run."""
