"""Features of images on their way: as a stream, as a bounded sample, and kept on disk."""
