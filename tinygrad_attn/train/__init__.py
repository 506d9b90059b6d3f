"""Training: settings, the loop, threads and ranks that share a batch, checkpoints and the folder of a run."""
