"""A user's own images: class folders, a table, a Hugging Face data set, or a torch dataset."""

from .images import load

__all__ = ["load"]
