"""Check that a method keeps what the training loop relies on, for the methods of other packages too.

    from unspur.testing import check_method

    def test_contract():
        check_method(MY_ENTRY)

May import: data, methods, models, training.
"""

from .contract import CHECKS, Subject, check_method, subject_of

__all__ = ["CHECKS", "Subject", "check_method", "subject_of"]
