"""The engine, a book to read from front to back: each file imports only those before it."""
