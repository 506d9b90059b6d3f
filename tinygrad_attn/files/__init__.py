"""What is on disk, and how it stays whole; and the errors that a user can put right."""
