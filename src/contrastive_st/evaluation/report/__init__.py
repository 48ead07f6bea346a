"""What an evaluation leaves behind: report, plots, results for a model card."""
