"""From PTX to a Program: instruction records, registers, constants. Python only; nothing here is compiled."""
