"""Bulk encoding over processes and machines: `accelerate launch -m contrastive_st.search.encode CORPUS ...`.

It takes the options of `contrastive-st index`. Each process encodes shards of its own, on its own device; they need not
talk to each other, so that one that dies costs its shard and no more: run the command again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from contrastive_st.errors import InputError
from contrastive_st.search.command import index_arguments, run_index


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code: 0, or 2 after one line on what to mend."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    index_arguments(parser)
    try:
        run_index(parser.parse_args(argv))
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
