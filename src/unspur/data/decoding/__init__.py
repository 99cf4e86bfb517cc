"""Decode image files to pixels: reading, resizing, worker processes, a cache of decoded pixels."""
