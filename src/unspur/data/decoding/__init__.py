"""Decoding of image files: reading, resizing, worker processes, a cache of decoded pixels."""
