"""A canary that measures nothing and takes a moment, so that a fault can come while it runs."""

import json
import time

from vllm.engine import trace

from study.measure.processes import die_with_owner

die_with_owner()
trace("canary")
time.sleep(0.25)
print(json.dumps({"gemm_tflops": 1.0, "copy_gb_s": 1.0, "read_gb_s": 1.0, "repeats": 20}))
