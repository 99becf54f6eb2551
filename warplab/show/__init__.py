"""Pictures: one function each, from data to a Matplotlib figure that belongs to nobody else.

Import the module of the picture you want, `from warplab.show.roofline import roofline`: Matplotlib is only loaded then.
"""
