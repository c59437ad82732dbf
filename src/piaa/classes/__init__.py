"""The names to look for: as people write them, checked, described to a text encoder, and what rivals them."""
