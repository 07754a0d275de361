"""A wall clock that jumps an hour back and forth at every look, in every process that has this folder on its path."""

import itertools
import time

_real = time.time
_jumps = itertools.cycle((3600.0, -3600.0, 0.0))
time.time = lambda: _real() + next(_jumps)
