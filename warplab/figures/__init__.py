"""Pictures of a result: its source with costs per line, its roofline. Matplotlib is loaded only by these modules."""
