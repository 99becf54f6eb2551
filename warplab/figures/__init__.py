"""Pictures of a result: its source with costs per line, its roofline. All but `annotated` load Matplotlib."""
