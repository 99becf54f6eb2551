"""What chapters 11 to 16 study: networks, parallel training, megakernels, searches, and kernels across GPUs."""
