"""The common entry point of Python and shell: open data, plan a run, carry it out, save it, report.

The functions of `api` and all commands go through here, so that Python and the shell give the same results:

    open_debias(images, ...)      ──> Run        prepare a run with settings for the number of images
    open_recipe(recipe, ...)      ──> Run        prepare a run of a recipe
    announce(run)                 ──> times      estimate the costs of a run from a few measured steps
    carry_out(run, out)           ──> Outcome    ask the judge, run the plan, write the folder and report
    open_comparison(images, ...)  ──> Runs       prepare runs of several methods on the same images
    carry_out_comparison(runs)    ──> scores     run all of them and compare
    open_audit(images, ...)       ──> Context    prepare an audit
    carry_out_audit(context, out) ──> Audit      train its networks, save its folder, write the report
    run_here, run_on_cluster      ──> FinishedRuns  run many recipes, in parts or on a cluster

May import: audit, cluster, data, deploy, errors, masks, models, parallel, recipes, report, runs, stages,
store.
"""

from .announcing import Announcement, announce, expect_costs
from .auditing import carry_out_audit, open_audit
from .comparing import METHODS, carry_out_comparison, open_comparison, refuse_folders
from .contexts import AUDIT_PIXELS
from .debiasing import carry_out, open_debias, open_recipe, save_outcome
from .many_runs import FinishedRuns, ListPart, ManyRuns, Site, run_here, run_on_cluster
from .outcome import Outcome

__all__ = [
    "AUDIT_PIXELS",
    "METHODS",
    "Announcement",
    "FinishedRuns",
    "ListPart",
    "ManyRuns",
    "Outcome",
    "Site",
    "announce",
    "carry_out",
    "carry_out_audit",
    "carry_out_comparison",
    "expect_costs",
    "open_audit",
    "open_comparison",
    "open_debias",
    "open_recipe",
    "refuse_folders",
    "run_here",
    "run_on_cluster",
    "save_outcome",
]
