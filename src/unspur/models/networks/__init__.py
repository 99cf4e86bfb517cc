"""The built-in networks."""
