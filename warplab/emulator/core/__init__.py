"""The compiled interpreter. What is compiled imports nothing from outside this folder, in the order state, alu, memory,
warp, tensor, asynchronous; its digest is the key of the compiled code on disk (fingerprint.py).
"""
