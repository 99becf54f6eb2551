"""What crosses between the judge and its worker, and what a report is made of."""
