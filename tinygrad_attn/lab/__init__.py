"""The lab: experiments that answer a question, each a file that declares a table and how it is measured.

    from tinygrad_attn.lab.catalogue import EXPERIMENTS
    table = EXPERIMENTS["learning"](seeds=3, language="es")     # or: tinygrad-attn lab learning --seeds 3 --lang es
    print(table); table.to_csv("learning.csv"); table.plot(); table.verdicts

catalogue.py lists them; experiment.py says how one is declared; result.py is the table, plot.py its picture, words.py
and spanish.toml its two languages; successor.py is the task that most trainings share; counting.py counts operations
and bytes; exercise.py judges the answers of the lessons (examples/lessons/)."""
