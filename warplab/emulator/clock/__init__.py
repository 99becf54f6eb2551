"""How long a plan takes on a chip, by what the emulator ran and what ptxas made of it: modelled, not measured."""
