"""What the assembler made of a kernel: how often each float operation and access of the PTX is in the machine code.

nvdisasm names the line of PTX that each machine instruction was made of. The machine code is not run: an instruction of
it runs as often as the PTX around it does. From that follow, for docs/counters.md's section "What ptxas made":

* float operations: of each kind as many as the machine code has, for each copy that it has of their block, in the
  threads that guards let through, and with what unusual operands cost;
* loads and stores that were dropped, or of which only some copies of an unrolled loop were kept;
* neighbouring loads and stores that became one wide one;
* spills: accesses to local memory that no PTX asks for;
* where lanes that came apart meet again, though some paths lead past;
* which rounds of a loop lanes go together, where the machine code has several loops for one.
"""
