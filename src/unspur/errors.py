"""Everything unspur raises on purpose.

    UnspurError
    ├── UsageError      a command or a function cannot be used like this
    ├── RecipeError     a setting is unknown, of the wrong type or contradicts another
    ├── DataError       a file, image or label is missing, damaged or out of range
    ├── ModelError      a network has no usable head, or the wrong number of outputs
    ├── MaskError       a weight cannot be masked, or masks do not fit a network
    ├── TrainingError   a loss, a weight or a score is no longer a number, or memory is short
    ├── StoreError      an artifact cannot be written, or what is stored is damaged
    └── Interrupted     stopped by the user; the work so far is kept

Every message says what was wrong, what was given and what to do. On the command line wrong use (UsageError,
RecipeError) ends with exit code 2, Interrupted with 130, every other error with 1.
"""


class UnspurError(Exception):
    """The parent of every error unspur raises on purpose."""

    exit_code = 1
    traceback = ""  # of the user's code, where that is the cause


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
    """A loss, a weight or a score is no longer a number, or there is not enough memory."""


class StoreError(UnspurError):
    """An artifact cannot be written, or what is stored is damaged."""


class Interrupted(UnspurError):  # noqa: N818  (not an error of anyone's)
    """Stopped by the user; the work so far is kept."""

    exit_code = 130
