"""One config under several conditions, each in a process of its own.

conditions.py   a condition as users write it, and the variables of its process
process.py      that process, as the caller sees it
cell.py         that process: some iterations of a run, recorded in a run folder
differences.py  the run folders side by side: heads, first difference, tolerance table
"""
