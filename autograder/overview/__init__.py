"""What a class's record shows: each student their grades, an instructor how it went, and pairs that are alike."""
