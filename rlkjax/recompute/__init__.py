"""One iteration computed a second time, by the reference in NumPy, and compared.

iteration.py    the stages of an iteration on the reference, and how far its buffers are apart
process.py      the reference in a process of its own, as training sees it
worker.py       that process
verdict.py      what follows: a record, a halt, or a pause with an alert
"""
