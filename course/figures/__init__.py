"""Pictures: one function each, from data to a Matplotlib figure that belongs to nobody else.

Import the module of the picture you want, `from course.figures.lanes import lanes_to_banks`: Matplotlib is loaded only
then.

This folder has many files because each is one picture that notebooks ask for by its name; what most of them share
is in `style` and `explore`.
"""
