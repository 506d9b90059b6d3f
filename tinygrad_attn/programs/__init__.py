"""The program: what a step really computes, as NumPy lines to read, run, save and compare.

Files, easy first: text (a line as Python), tape (the lines), noted (the array that tells the tape), reach (what a
function can reach), record (one run), listing (the program), reading (how it prints), source (as a file)."""
