"""The data sets of the evaluations: SentEval's files and data sets of the Hub."""
