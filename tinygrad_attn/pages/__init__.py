"""Pages about attention: report/ is one offline file, play/ is live.

look.py      a model on one sentence: every step of every attention with its gradient, and the answer
kit.py       what both pages are made of: words, style sheets, parts in HTML
words.toml   what the pages say, in every language
report/      subject (what it is about), one file a section, document (all sections in one file)
play/        answers (what is computed), view (as HTML), app (the page), server
"""
