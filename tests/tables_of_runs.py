"""Tables of runs with known costs, for the tests of comparisons."""

import math

import numpy as np
import pandas as pd


def make_table(costs, blocks=5, users=(1, 8), noise=0.002, machines=("a",), seed=1):
    """Time every level in every block; `costs` maps levels to their true shares, blocks go round the machines."""
    rng = np.random.default_rng(seed)
    rows = []
    for block in range(1, blocks + 1):
        card = rng.normal(0, 0.05)
        for level, cost in costs.items():
            for count in users:
                value = 5.0 * count**0.1 * (1 + cost) * math.exp(card + rng.normal(0, noise))
                machine = machines[(block - 1) % len(machines)]
                rows.append({"level": level, "users": count, "block": block, "machine": machine, "value": value})
    return pd.DataFrame(rows)


def table_of(pairs, users=1):
    """Lay out (default, level) times of blocks 1, 2, ... on one machine."""
    rows = [
        {"level": level, "users": users, "block": block, "machine": "a", "value": value}
        for block, times in enumerate(pairs, 1)
        for level, value in zip(("default", "O0"), times, strict=True)
    ]
    return pd.DataFrame(rows)


def flat_blocks(*log_ratios):
    return table_of([(5.0, 5.0 * math.exp(d)) for d in log_ratios])
