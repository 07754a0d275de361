# What each vLLM compile level costs on your own GPU.
#
#   make rehearsal                       the whole path on two CPU cores, in minutes; never a result
#   make study PARAMETERS=FILE           the same path on this machine's NVIDIA GPU
#   make edition EDITION=NAME [STUDIES="a b"]   rebuild an edition from raw records, no GPU needed
#   make test                            linters, types and tests, as CI runs them
#   make lab                             JupyterLab on notebooks/
#
# Each target installs what it needs, once: the CPU lock into .venv, the CUDA lock into .venv-cuda.

PYTHON ?= python3
PARAMETERS ?= notebooks/parameters/l4-full-clock.yaml
TORCH_CPU := torch==2.13.0+cpu
CPU := .venv/.installed-$(shell cat requirements/cpu.txt pyproject.toml | cksum | cut -d ' ' -f 1)
CUDA := .venv-cuda/.installed-$(shell cat requirements/cuda.txt pyproject.toml | cksum | cut -d ' ' -f 1)
PIP := -m pip --disable-pip-version-check -qq install --no-deps

.PHONY: rehearsal study edition test lab install-cpu install-cuda
.DELETE_ON_ERROR:

rehearsal: $(CPU)
	@bash notebooks/run_all.sh .venv notebooks/parameters/rehearsal.yaml

study: $(CUDA)
	@bash notebooks/run_all.sh .venv-cuda $(PARAMETERS)

edition: $(CPU)
	@test -n "$(EDITION)" || { echo "name the edition: make edition EDITION=2026.11" >&2; exit 2; }
	@.venv/bin/python -m study edition $(EDITION) $(STUDIES)

test: $(CPU)
	.venv/bin/ruff check .
	.venv/bin/mypy --strict study
	.venv/bin/python -m pytest

lab:
	@if [ -d .venv-cuda ]; then $(MAKE) --no-print-directory install-cuda; .venv-cuda/bin/jupyter lab notebooks; \
	else $(MAKE) --no-print-directory install-cpu; .venv/bin/jupyter lab notebooks; fi

install-cpu: $(CPU)
install-cuda: $(CUDA)

# torch comes first and without its needs, which the lock holds. Where no registry at hand has the CPU build,
# PyTorch's own index does.
$(CPU):
	@echo "Installing vLLM's CPU build and the study into .venv (about two minutes) ..."
	@$(PYTHON) -m venv .venv
	@.venv/bin/python $(PIP) $(TORCH_CPU) 2>/dev/null \
	  || .venv/bin/python $(PIP) --index-url https://download.pytorch.org/whl/cpu $(TORCH_CPU)
	@.venv/bin/python $(PIP) -r requirements/cpu.txt
	@.venv/bin/python requirements/name_vllm.py
	@.venv/bin/python $(PIP) --no-build-isolation --editable .
	@rm -f .venv/.installed-*; touch $@

$(CUDA):
	@command -v nvidia-smi > /dev/null || { echo "no NVIDIA driver here: 'make rehearsal' runs without one" >&2; exit 2; }
	@echo "Installing vLLM for NVIDIA GPUs and the study into .venv-cuda (several GB) ..."
	@$(PYTHON) -m venv .venv-cuda
	@.venv-cuda/bin/python $(PIP) -r requirements/cuda.txt
	@.venv-cuda/bin/python $(PIP) --no-build-isolation --editable .
	@rm -f .venv-cuda/.installed-*; touch $@
