"""Sweeps: a grid of lab or training runs as independent tasks on a Dask cluster."""
