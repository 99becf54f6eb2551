"""What completes later than it is issued: cp.async, bulk and tensor copies, mbarriers."""
