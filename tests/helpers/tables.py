"""Tables of Markdown pages, as the tests of printed figures read them."""


def table_rows(page, wanted):
    """The rows for which `wanted(first cell, columns)` holds: the line, its first cell, the others by their column."""
    columns = []
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip().strip("*") for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            columns = []
        elif not columns:
            columns = cells[1:]
        elif wanted(cells[0], columns):
            yield line, cells[0], dict(zip(columns, cells[1:], strict=True))


def near(cell, value):
    """Whether a printed number is this value, to its own digits (a half may go either way)."""
    digits = len(cell.partition(".")[2])
    return abs(float(cell) - value) <= 0.5 * 10**-digits + 1e-6
