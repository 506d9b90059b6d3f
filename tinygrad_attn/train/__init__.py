"""Training: tasks as data, and (to come) the loop around them."""
