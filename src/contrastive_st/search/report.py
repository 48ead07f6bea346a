"""What became of the rows and files of a corpus: how many were left out or cut, why, and the first of their names."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from contrastive_st.errors import InputError

UNKNOWN = "without a token that the model knows"
TOO_LONG = "longer than the model reads, so only their beginnings are searched (--split_into passages splits them)"
_NAMES = 10  # names of each reason that are shown


class LeftOut(InputError):
    """Something would be left out, under `--strict`."""


@dataclass
class Report:
    """Rows and files of a corpus that are left out, or not searched to their end, by the reason.

    Args:
        strict: raise `LeftOut` at the first of them.
        counts: how many, by the reason.
        names: the first of them, by the reason.
        long: columns with cells that are too long to be kept as metadata, and in how many rows.
        foreign: columns with cells of types that metadata cannot have.
        notes: what was detected of files (encoding, delimiter), with the names of these.
        text_files: how many text files are lists (True) or documents (False) by their looks.
        unread: files of a folder that could not be read to their end.
        types: of the columns of metadata, with the cell for which a column of numbers is text.

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
    notes: dict[str, dict[str, None]] = field(default_factory=dict)
    text_files: Counter[bool] = field(default_factory=Counter)
    unread: set[str] = field(default_factory=set)
    types: dict[str, tuple[str, str]] = field(default_factory=dict)

    def leave_out(self, reason: str, name: str) -> None:
        """Count a row or a file that is left out; `name` is where it is."""
        if self.strict:
            raise LeftOut(f"{name} is {reason}; leave it out of the corpus, or leave out --strict")
        self.counts[reason] += 1
        first = self.names.setdefault(reason, [])
        if len(first) < _NAMES:
            first.append(name)

    def say(self, note: str, name: str) -> None:
        """Keep what was detected of a file."""
        self.notes.setdefault(note, {})[name] = None

    def lines(self) -> list[str]:
        """A line for each reason, and for each choice that was made."""
        lines = [
            f"{'' if reason == TOO_LONG else 'left out: '}{count:,} {reason}: {'; '.join(self.names[reason])}"
            + "; ..." * (count > len(self.names[reason]))
            for reason, count in self.counts.items()
        ]
        for note, names in self.notes.items():
            lines.append(f"{note}: {'; '.join(list(names)[:_NAMES])}" + "; ..." * (len(names) > _NAMES))
        if self.types:
            because = {name: f" (because of {why})" * bool(why) for name, (_, why) in self.types.items()}
            each = [f"{name or repr(name)} {kind}{because[name]}" for name, (kind, _) in self.types.items()]
            lines.append(f"types of the metadata: {', '.join(each)}; --types COLUMN=TYPE sets another")
        for what, columns in (("too long", self.long), ("of a type that metadata cannot have", self.foreign)):
            if columns:
                counted = ", ".join(f"{name} of {rows:,} row{'s' * (rows > 1)}" for name, rows in columns.items())
                keep = " (--metadata COLUMN keeps a column)" * (columns is self.long)
                lines.append(f"not kept as metadata, {what}: {counted}{keep}")
        for lists, what in (
            (False, "one document each (--split_into lines: each line is one)"),
            (True, "lists, with a document on each line (--split_into files keeps them whole)"),
        ):
            if count := self.text_files[lists]:
                lines.append(f"{count:,} text files are {what}")
        return lines
