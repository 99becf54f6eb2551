"""All-reduces over peer memory and a row-parallel layer that sends while it multiplies: CUDA C++ and its launches."""
