"""The command line: main.py lists the commands and imports the one that was asked for; one module per command."""

from .main import main
