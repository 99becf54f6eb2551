"""What chapters 11 to 17 study: networks, parallel training, megakernels, searches, kernels across GPUs, block scales."""
