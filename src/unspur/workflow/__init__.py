"""The common entry point of Python and shell: open data, plan a run, carry it out, save it, report.

The functions of `api`, every command, `bench` and the audit go through here, so that the same verb gives the
same result from Python and from the shell:

    open_debias(images, ...)      ──> Run        settings from the number of images; the judge is asked first
    open_recipe(recipe, ...)      ──> Run        a recipe as it is written
    announce(run)                 ──> times      what the run costs, from a few measured steps
    carry_out(run, out)           ──> Outcome    ask the judge, run the plan, save the folder, write the page
    open_comparison(images, ...)  ──> Runs       several methods on the same images
    carry_out_comparison(runs)    ──> scores of all of them beside each other
    open_audit(images, ...)       ──> Context    an audit and nothing else
    carry_out_audit(context, out) ──> Audit      train its networks, save its folder, write the page
    run_here, run_on_cluster      ──> FinishedRuns  many runs of recipes, in parts or on a cluster

May import: addresses, audit, cluster, data, deploy, errors, masks, models, parallel, recipes, report,
runs, stages, store.
"""

from .announcing import Announcement, announce, expect_costs
from .auditing import carry_out_audit, open_audit
from .comparing import METHODS, carry_out_comparison, open_comparison
from .contexts import AUDIT_PIXELS, audit_context, audit_pixels, open_context
from .debiasing import Outcome, add_audit, carry_out, open_debias, open_recipe, save_outcome
from .many_runs import FinishedRuns, ListPart, ManyRuns, Site, run_here, run_on_cluster

__all__ = [
    "AUDIT_PIXELS",
    "METHODS",
    "Announcement",
    "FinishedRuns",
    "ListPart",
    "ManyRuns",
    "Outcome",
    "Site",
    "add_audit",
    "announce",
    "audit_context",
    "audit_pixels",
    "carry_out",
    "carry_out_audit",
    "carry_out_comparison",
    "expect_costs",
    "open_audit",
    "open_comparison",
    "open_context",
    "open_debias",
    "open_recipe",
    "run_here",
    "run_on_cluster",
    "save_outcome",
]
