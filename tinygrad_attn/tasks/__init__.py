"""Tasks as data (letters, agreement, text) and the smallest model that learns one."""
