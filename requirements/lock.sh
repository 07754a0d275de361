#!/usr/bin/env bash
# Resolves the two exact locks anew:  bash requirements/lock.sh   (needs uv; run it when a pin in *.in changes)
#
# Both are for x86-64 Linux and CPython 3.11.5 to 3.13, and are installed with `pip install --no-deps`:
#   cpu.txt   vLLM's CPU build. torch is left out (the Makefile installs the +cpu build first), and so are
#             torchvision, torchaudio and torchcodec: their PyPI builds break `import transformers` beside a CPU torch.
#   cuda.txt  vLLM's CUDA build with its pinned torch. environment.yml repeats these pins for conda.
set -euo pipefail
cd "$(dirname "$0")/.."
lock() { # lock NAME TITLE [uv arguments]: requirements/NAME.in with study.in becomes requirements/NAME.txt
  local name=$1 title=$2
  shift 2
  { echo "# $title Made by requirements/lock.sh; install with --no-deps."
    uv pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate --no-emit-find-links \
      --no-emit-index-url "requirements/$name.in" requirements/study.in "$@" | drop_certain_markers
  } > "requirements/$name.txt"
}
drop_certain_markers() { # a marker that every target of the lock meets says nothing
  python3 -c '
import sys
certain = {"platform_machine == \"x86_64\"", "sys_platform == \"linux\"", "platform_python_implementation == \"CPython\"",
           "python_full_version >= \"3.11.5\"", "python_full_version < \"3.14\"", "implementation_name != \"PyPy\""}
for line in sys.stdin:
    pin, _, marker = line.strip().partition(" ; ")
    rest = [m for m in marker.replace("\x27", "\x22").split(" and ") if m and m not in certain]
    print(pin + (" ; " + " and ".join(rest) if rest else ""))'
}
lock cpu "vLLM 0.31.0 on the CPU, after torch==2.13.0+cpu." requirements/site.in --override requirements/cpu-override.in
lock cuda "vLLM 0.31.0 for NVIDIA GPUs (CUDA 13, driver 580 or newer)."
python3 - <<'PY'
from pathlib import Path

pins = [line for line in Path("requirements/cuda.txt").read_text().splitlines() if line and not line.startswith("#")]
head = """# For conda users: the pins of requirements/cuda.txt. Made by requirements/lock.sh.
#   conda env create -f environment.yml && conda activate vllm-compile-study && pip install --no-deps -e .
name: vllm-compile-study
channels: [conda-forge]
dependencies:
  - python=3.12
  - pip
  - pip:
"""
Path("environment.yml").write_text(head + "".join(f"      - '{pin}'\n" for pin in pins))
PY
