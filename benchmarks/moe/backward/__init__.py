"""The backward pass of a mixture-of-experts layer: products over rows and over tokens, and what joins them."""
