"""Instructions that use registers while an asynchronous instruction may still read or write them."""
