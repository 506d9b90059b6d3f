"""What a person sees: tables in a terminal and as CSV, traces, pictures."""

from .table import Column, Table
