"""What is on disk, and how it stays whole: JSON lines, locks, arrays by name; and the errors that a user can put right."""
