"""The lab: experiments that answer a question, each a function that returns a table."""
