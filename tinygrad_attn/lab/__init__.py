"""The lab: experiments that answer a question, each a function that returns a table.

    from tinygrad_attn.lab.catalogue import EXPERIMENTS, experiment
    table = experiment("learning", seeds=3, language="es")     # or: tinygrad-attn lab learning --seeds 3 --lang es
    print(table); table.to_csv("learning.csv"); table.plot(); table.verdicts

catalogue.py lists them; result.py is the table; successor.py the task that most trainings share; counting.py counts
operations and bytes; exercise.py judges the answers of the lessons (examples/lessons/)."""
