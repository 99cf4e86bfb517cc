"""Everything unspur raises on purpose.

    UnspurError
    ├── RecipeError     a setting is unknown, of the wrong type or contradicts another
    ├── DataError       a file, image or label is missing, damaged or out of range
    ├── ModelError      a network has no usable head, or the wrong number of outputs
    ├── MaskError       a weight cannot be masked, or masks do not fit a network
    ├── TrainingError   the loss is no longer a number
    ├── StoreError      an artifact cannot be written, or what is stored is damaged
    └── Interrupted     stopped by the user; the work so far is kept

Every message says what was wrong, what was given and what to do.
"""


class UnspurError(Exception):
    """The parent of every error unspur raises on purpose."""


class RecipeError(UnspurError):
    """A setting is unknown, of the wrong type, or contradicts another."""


class DataError(UnspurError):
    """A file, an image or a label is missing, damaged or out of range."""


class ModelError(UnspurError):
    """A network has no usable classifier head, or the wrong number of outputs."""


class MaskError(UnspurError):
    """A weight cannot be masked, or masks do not fit a network."""


class TrainingError(UnspurError):
    """The loss is no longer a number."""


class StoreError(UnspurError):
    """An artifact cannot be written, or what is stored is damaged."""


class Interrupted(UnspurError):  # noqa: N818  (not an error of anyone's)
    """Stopped by the user; the work so far is kept."""
