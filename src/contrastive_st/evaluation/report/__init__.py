"""The output of an evaluation: report, plots, results for a model card."""
