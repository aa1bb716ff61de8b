"""A run brought here to answer: its iteration is computed again under its own flags and threads.

hearing.py     what the referee asks of both runs: buffers, whether they repeat, first operation
process.py     the process that answers for one run, as the referee sees it
worker.py      that process
testimony.py   one iteration of a run, computed again from its nearest checkpoint
"""
