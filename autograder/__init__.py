"""The judge: grades a submission of a lab for correctness, safety, memory traffic and efficiency."""
