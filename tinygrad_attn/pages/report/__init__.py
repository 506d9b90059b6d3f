"""Self-contained pages about the attention of a trained model: one file, no network.

Imported by the command ``report``; its plots need matplotlib (the extra ``viz``)."""
