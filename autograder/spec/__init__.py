"""What a lab declares: its task, sizes, inputs and points, and the checks that tasks may use."""
