"""The errors that unspur raises.

    UnspurError
    ├── UsageError      a command or a function cannot be used like this
    ├── RecipeError     a setting is unknown, of the wrong type or contradicts another
    ├── DataError       a file, image or label is missing, damaged or out of range
    ├── ModelError      a network has no usable head, or the wrong number of outputs
    ├── MaskError       a weight cannot be masked, or masks do not fit a network
    ├── TrainingError   a number is not finite, there is not enough memory, or the GPU failed
    ├── StoreError      a result cannot be written, or a stored one is damaged
    └── Interrupted     stopped by the user; the work so far is kept

Every message says what is wrong, what was given and what to do. The exit code of the command line is 2 for
UsageError and RecipeError, 130 for Interrupted and 1 for all other errors.
"""


class UnspurError(Exception):
    """The base class of all errors that unspur raises."""

    exit_code = 1
    traceback = ""  # the traceback of the user's code, if that is the cause


class UsageError(UnspurError):
    """A command or a function cannot be used like this."""

    exit_code = 2


class RecipeError(UnspurError):
    """A setting is unknown, of the wrong type, or contradicts another."""

    exit_code = 2


class DataError(UnspurError):
    """A file, an image or a label is missing, damaged or out of range."""


class ModelError(UnspurError):
    """A network has no usable classifier head, or the wrong number of outputs."""


class MaskError(UnspurError):
    """A weight cannot be masked, or masks do not fit a network."""


class TrainingError(UnspurError):
    """A loss, a weight or a score is not finite, there is not enough memory, or the GPU failed."""


class StoreError(UnspurError):
    """A result cannot be written, or a stored one is damaged."""


class Interrupted(UnspurError):  # noqa: N818  (not really an error)
    """Stopped by the user; the work so far is kept."""

    exit_code = 130
