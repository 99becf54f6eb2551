"""What a run says: counters under their Nsight Compute names, findings in words, what a kernel printed."""
