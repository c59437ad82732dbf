"""What `Config.auto()` finds out about a collection without a label, and how it weighs evidence by it."""
