"""The output of an evaluation: report, results for a model card."""
