"""Use unspur with other libraries: scikit-learn, the Hugging Face Hub, experiment trackers.

Importing this folder imports none of these libraries.
May import: api, boundary, data, deploy, errors, extras, recipes, run_api, runs, workflow.
"""

from . import trackers

__all__ = ["trackers"]
