"""What a load client does while its server starts: the import, the question about flags, and the prompts to come."""

from typing import Any

from study.design.plan import PlannedLaunch
from study.design.pool import GENERATED_PROMPTS, WARM_UP_SEED_OFFSET
from study.measure.load import pool_job
from study.measure.setting import Setting

MOST_POOLS = 16
"""Made ahead: more of them could keep the first run waiting."""


def first_job(setting: Setting, planned: PlannedLaunch) -> dict[str, Any]:
    """Return the first job of a launch's client.

    The prompts of seeds that the session has none of yet are made ahead; what goes wrong there is told when they are
    asked for.
    """
    left_out = setting.left_out
    offsets = (0,) if left_out is not None and left_out.waves is not None else (0, WARM_UP_SEED_OFFSET)
    sizes: dict[int, int] = {}
    for run in planned.runs if setting.parameters.pool == "generated" else ():
        for seed in (run.seed + offset for offset in offsets):
            if seed not in setting.pools:
                sizes.setdefault(seed, max(GENERATED_PROMPTS, run.users))
    pools = [pool_job(setting.parameters, seed, size) for seed, size in list(sizes.items())[:MOST_POOLS]]
    return {"job": "begin", "flags": setting.flags_to_check, "pools": pools}
