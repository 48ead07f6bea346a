"""What became of the rows and files of a corpus: how many were left out or cut, why, and the first of their names."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from contrastive_st.errors import InputError

UNKNOWN = "without a token that the model knows"
TOO_LONG = "longer than the model reads, so only their beginnings are searched (--split_into passages splits them)"
AS_DOCUMENT = "text files are one document each (--split_into lines: each line is one)"
AS_LIST = "text files are lists, with a document on each line (--split_into files keeps them whole)"
BY_LOOKS = (AS_DOCUMENT, AS_LIST)
_NAMES = 10  # names of each reason that are shown


class LeftOut(InputError):
    """Something would be left out, under `--strict`."""


@dataclass
class Report:
    """Rows and files of a corpus that are left out, or not searched to their end, by the reason.

    Args:
        strict: raise `LeftOut` at the first of them.
        counts: how many, by the reason; and how many text files are lists or documents by their looks.
        names: the first of them, by the reason; and by what was detected of files (encoding, delimiter), which.
        long: columns with cells that are too long to be kept as metadata, and in how many rows.
        foreign: columns with cells of types that metadata cannot have.
        unread: files of a folder that could not be read to their end.
        types: of the columns of metadata.
        why: of columns of text files, the cell for which one of numbers is text, or the collection that has its type.

    Example:
        >>> report = Report()
        >>> report.leave_out("encrypted", "plan.pdf")
        >>> report.leave_out("blank", "a.csv, row 3")
        >>> report.leave_out("blank", "a.csv, row 9")
        >>> report.lines()
        ['left out: 1 encrypted: plan.pdf', 'left out: 2 blank: a.csv, row 3; a.csv, row 9']
    """

    strict: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    names: dict[str, list[str]] = field(default_factory=dict)
    long: Counter[str] = field(default_factory=Counter)
    foreign: Counter[str] = field(default_factory=Counter)
    unread: set[str] = field(default_factory=set)
    types: dict[str, str] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)

    def leave_out(self, reason: str, name: str) -> None:
        """Count a row or a file that is left out; `name` is where it is."""
        if self.strict:
            raise LeftOut(f"{name} is {reason}; leave it out of the corpus, or leave out --strict")
        self.count(reason, name)

    def count(self, what: str, name: str) -> None:
        """Count a row or a file that is left out, or one of `BY_LOOKS`."""
        self.counts[what] += 1
        self.say(what, name)

    def say(self, note: str, name: str) -> None:
        """Keep what was detected of a file, with the first of the names of such files."""
        names = self.names.setdefault(note, [])
        if name not in names and len(names) <= _NAMES:
            names.append(name)

    def lines(self) -> list[str]:
        """A line for each reason, and for each choice that was made."""
        lines = []
        for reason in sorted(self.names, key=lambda one: (one in BY_LOOKS, not self.counts[one])):
            names = self.names[reason]
            counted = f"{self.counts[reason]:,} " if self.counts[reason] else ""
            what = f"left out: {counted}" if counted and reason not in (TOO_LONG, *BY_LOOKS) else counted
            lines.append(f"{what}{reason}: {'; '.join(names[:_NAMES])}" + "; ..." * (len(names) > _NAMES))
        because = {name: f" (because of {why})" for name, why in self.why.items() if why}
        shown = [name for name in self.types if name != "file" or name in self.why]  # else it is that of the document
        if each := [f"{name or repr(name)} {self.types[name]}{because.get(name, '')}" for name in shown]:
            lines.append(f"types of the metadata: {', '.join(each)}; --types COLUMN=TYPE sets another")
        for what, columns in (("too long", self.long), ("of a type that metadata cannot have", self.foreign)):
            if columns:
                counted = ", ".join(f"{name} of {rows:,} row{'s' * (rows > 1)}" for name, rows in columns.items())
                keep = " (--metadata COLUMN keeps a column)" * (columns is self.long)
                lines.append(f"not kept as metadata, {what}: {counted}{keep}")
        return lines
