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
