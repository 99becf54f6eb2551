"""What chapters 11 to 17 study: networks, training, megakernels, searches, block scales, and kernels across GPUs."""
