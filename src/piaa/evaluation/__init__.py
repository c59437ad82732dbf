"""Measuring: metrics, bootstrap, data sets, methods and the paper's tables under one roof."""
