"""The GPU side: a trusted executor and a stopwatch, behind a worker process. Importing this loads no CUDA library."""
