"""Repartitioning an eMMC in place from a rescue stick: planner, journal and executor, standard library only.

The whole directory is copied onto the stick and run there as ``python3 -m repartition``; what only the host
needs (``drive``, ``stick``) imports the rest of boardwright inside its functions or is not copied.
"""
