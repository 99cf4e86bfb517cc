"""Check that a method has the properties the training loop relies on; other packages can do so too.

    from unspur.testing import check_method

    def test_contract():
        check_method(MY_ENTRY)

May import: data, methods, models, training.
"""

from .contract import CHECKS, Subject, check_method, subject_of

__all__ = ["CHECKS", "Subject", "check_method", "subject_of"]
