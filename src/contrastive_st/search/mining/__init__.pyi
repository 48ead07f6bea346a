from .hard_negatives import (
    HardNegatives as HardNegatives,
    MiningCounts as MiningCounts,
    mine_hard_negatives as mine_hard_negatives,
    write_hard_negatives as write_hard_negatives,
)
from .negative_rules import MiningOptions as MiningOptions, NegativeRules as NegativeRules
