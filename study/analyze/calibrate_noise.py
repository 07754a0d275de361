"""Simulated studies: what runs of known levels look like when runs, launches and clock regimes scatter.

A time is base * exp(effect + launch noise + run noise): the launch's part is shared by all numbers of users of one
server process, the run's part is its own. Regimes add a server that changes between two speeds for seconds at a time,
as -O0 does where the host launches every kernel.
"""

import math
from dataclasses import dataclass

import numpy as np

from study.analyze.stats import FloatArray
from study.errors import InputError


@dataclass(frozen=True)
class Regimes:
    """Two speeds that take turns, each for an exponentially distributed time.

    Attributes:
        dwell_s: mean time spent in one speed before it changes, in seconds.
        ratio: time of a token in the slow one over that in the fast one.
        run_s: length of a run in seconds; a longer run averages more turns.

    """

    dwell_s: float = 8.0
    ratio: float = 1.7
    run_s: float = 60.0

    def __post_init__(self) -> None:
        for name in ("dwell_s", "ratio", "run_s"):
            _check_range(name, getattr(self, name), (0.0, math.inf))


@dataclass(frozen=True)
class SimulatedStudy:
    """A study of levels that all cost the same against the default.

    Attributes:
        blocks: blocks of the study, two at least.
        users: numbers of users run in each launch.
        levels: levels beside the default.
        run_noise: standard deviation of the log time between runs of one launch.
        launch_noise: the same between launches of one level.
        effect: true cost of every level, as a share (0.02 is 2 % slower).
        margin: largest effect that does not matter, as a share.
        alpha: chance of a false difference that one family may carry.
        studies: studies to simulate.
        regimes: two speeds within every level, the default too; None for levels of one speed.

    """

    blocks: int = 5
    users: int = 7
    levels: int = 4
    run_noise: float = 0.005
    launch_noise: float = 0.01
    effect: float = 0.0
    margin: float = 0.01
    alpha: float = 0.05
    studies: int = 20_000
    regimes: Regimes | None = None

    def __post_init__(self) -> None:
        for name, least in (("blocks", 2), ("users", 1), ("levels", 1), ("studies", 1)):
            value = getattr(self, name)
            if value < least:
                raise InputError(f"{name} {value} is too few to simulate; {least} or more works")
        _check_range("effect", self.effect, (-1.0, math.inf))
        for name in ("margin", "alpha"):
            _check_range(name, getattr(self, name), (0.0, 1.0))
        for name in ("run_noise", "launch_noise"):
            value = getattr(self, name)
            if not 0.0 <= value < math.inf:
                raise InputError(f"{name} {value} is no standard deviation; 0.005 is half a percent")
        if self.run_noise == self.launch_noise == 0.0 and self.regimes is None:
            raise InputError("run_noise and launch_noise are both 0; a study without scatter cannot be tested")


def draw_log_times(study: SimulatedStudy, studies: int, rng: np.random.Generator) -> FloatArray:
    """Draw logarithms of times of runs, up to a constant.

    Returns:
        (studies, 1 + levels, blocks, users); index 0 of the second axis is the default.

    """
    shape = (studies, 1 + study.levels, study.blocks, study.users)
    logs = rng.normal(0.0, 1.0, shape) * study.run_noise
    logs += rng.normal(0.0, 1.0, (*shape[:3], 1)) * study.launch_noise
    logs[:, 1:] += math.log1p(study.effect)
    if study.regimes is not None:
        logs += draw_regime_logs(study.regimes, int(np.prod(shape)), rng).reshape(shape)
    return logs


def draw_regime_logs(regimes: Regimes, runs: int, rng: np.random.Generator) -> FloatArray:
    """Draw the logarithm of the mean time of a token over each run (runs,), the fast speed being 0.

    A run of R seconds of which F are fast makes F + (R - F) / ratio tokens, in units of the fast speed.
    """
    elapsed = np.zeros(runs)
    fast_s = np.zeros(runs)
    is_fast = rng.random(runs) < 0.5
    going = np.arange(runs)
    while going.size:
        dwell = np.minimum(rng.exponential(regimes.dwell_s, going.size), regimes.run_s - elapsed[going])
        fast_s[going] += np.where(is_fast[going], dwell, 0.0)
        elapsed[going] += dwell
        is_fast[going] = ~is_fast[going]
        going = going[elapsed[going] < regimes.run_s]
    share = fast_s / regimes.run_s
    return np.asarray(-np.log(share + (1.0 - share) / regimes.ratio), dtype=np.float64)


def _check_range(name: str, value: float, between: tuple[float, float]) -> None:
    if not between[0] < value < between[1]:
        raise InputError(f"{name} {value} is out of range; above {between[0]:g} and below {between[1]:g} works")
