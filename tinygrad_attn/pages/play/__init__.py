"""The live page of ``tinygrad-attn play``: your own sentence, and attention that answers as you move a slider.

answers.py   what is computed, without any page
view.py      the same as HTML, everything escaped
app.py       the page itself, a marimo notebook
server.py    serves it on this machine only
"""
