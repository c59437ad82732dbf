"""Collections that do not fit in memory, a day or one process: sources, work units, the feature cache."""
