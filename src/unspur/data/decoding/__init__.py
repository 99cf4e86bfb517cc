"""From files to pixels: reading, resizing, workers, a cache of decoded pixels."""
