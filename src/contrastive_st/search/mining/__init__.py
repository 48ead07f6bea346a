"""Mining of hard negatives for pairs of texts."""

from contrastive_st.search.mining.hard_negatives import (
    HardNegatives,
    MiningCounts,
    mine_hard_negatives,
    write_hard_negatives,
)
from contrastive_st.search.mining.negative_rules import NegativeRules

__all__ = ["HardNegatives", "MiningCounts", "NegativeRules", "mine_hard_negatives", "write_hard_negatives"]
