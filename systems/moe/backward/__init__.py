"""The layer's backward pass: products over rows and over tokens, and the kernels between them."""
