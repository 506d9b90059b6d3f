"""What a person sees: numbers, tables, matrices, pages, traces, pictures.  Knows nothing of what it shows."""

from .table import Column, Table, Tabled
