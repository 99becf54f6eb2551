"""What the judge itself does: the order of grading, its worker, and what it concludes from outcomes."""
