"""Drivers of other trainers, each a process of its own under its own default flags."""
