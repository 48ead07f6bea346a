"""The summary of the meetings."""

from collections import Counter


def pytest_terminal_summary(terminalreporter):
    """How many combinations held the laws, and how many were refused, as they must be."""
    counts = Counter(
        value
        for report in terminalreporter.stats.get("passed", [])
        for name, value in report.user_properties
        if name == "meeting" and report.when == "call"
    )
    if counts:
        terminalreporter.write_line(f"meetings: {counts['held']} combinations hold, {counts['refused']} are refused")
