"""All-reduce by hand over peer memory, and what times it beside NCCL: `all_reduce.cu` is the thing itself."""
