"""One module per command of ``tinygrad-attn``; cli.py lists them and imports the one that was asked for."""
