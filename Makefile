# What each vLLM compile level costs on your own GPU.
#
#   make rehearsal                       the whole path on two CPU cores, in minutes; never a result
#   make study PARAMETERS=FILE           the same path on this machine's NVIDIA GPU
#   make edition EDITION=2026.12 [STUDIES="a b"]   an edition from raw records, beside the one before; no GPU needed
#   make site                            the published site, in build/site; opens from the folder
#   make test                            linters, types and tests, as CI runs them
#   make fleet-rehearsal                 three machines played by one, one of them killed: the study is whole all the same
#   make growth                          build simulated studies of up to 10,000 runs; how time and memory grow
#   make chaos                           kill processes of real sessions at random, and count what is lost (CHAOS_MINUTES=40)
#   make bench                           how long the study takes beside vLLM's own sweep; five quiet minutes
#   make lab                             JupyterLab on notebooks/
#
# Each target installs what it needs, once: the CPU lock into .venv, the CUDA lock into .venv-cuda. `make install-next`
# puts the next vLLM's CPU build into .venv-next.

PYTHON ?= python3
PARAMETERS ?= notebooks/parameters/l4-full-clock.yaml
TORCH_CPU := --require-hashes -r requirements/torch-cpu.txt
CPU := .venv/.installed-$(shell cat requirements/torch-cpu.txt requirements/cpu.txt pyproject.toml | cksum | cut -d ' ' -f 1)
NEXT := .venv-next/.installed-$(shell cat requirements/torch-cpu.txt requirements/cpu-next.txt pyproject.toml | cksum | cut -d ' ' -f 1)
CUDA := .venv-cuda/.installed-$(shell cat requirements/cuda.txt pyproject.toml | cksum | cut -d ' ' -f 1)
PIP := -m pip --disable-pip-version-check -qq install --no-deps

.PHONY: rehearsal study edition site test chaos fleet-rehearsal bench growth lab install-cpu install-next install-cuda
.DELETE_ON_ERROR:

rehearsal: $(CPU)
	@bash notebooks/run_all.sh .venv notebooks/parameters/rehearsal.yaml

study: $(CUDA)
	@bash notebooks/run_all.sh .venv-cuda $(PARAMETERS)

edition: $(CPU)
	@test -n "$(EDITION)" || { echo "name the edition: make edition EDITION=2026.12 [STUDIES=\"a b\"]" >&2; exit 2; }
	@bash notebooks/edition.sh .venv $(EDITION) $(STUDIES)

site: $(CPU)
	@.venv/bin/python -m study site

test: $(CPU)
	.venv/bin/ruff check .
	.venv/bin/mypy --strict study
	.venv/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

chaos: $(CPU)
	@.venv/bin/python -m tests.chaos

fleet-rehearsal: $(CPU)
	@.venv/bin/python -m tests.fleet_rehearsal

bench: $(CPU)
	@.venv/bin/python -m tests.bench overhead

growth: $(CPU)
	@.venv/bin/python -m tests.growth

lab:
	@if [ -d .venv-cuda ]; then $(MAKE) --no-print-directory install-cuda; .venv-cuda/bin/jupyter lab notebooks; \
	else $(MAKE) --no-print-directory install-cpu; .venv/bin/jupyter lab notebooks; fi

install-cpu: $(CPU)
install-next: $(NEXT)
install-cuda: $(CUDA)

# torch comes first and without its needs, which the lock holds. Where no registry at hand has the CPU build,
# PyTorch's own index does. The hashes are of the same files.
$(CPU) $(NEXT): folder = $(@D)
$(CPU) $(NEXT):
	@echo "Installing vLLM's CPU build and the study into $(folder) (about two minutes) ..."
	@$(PYTHON) -m venv $(folder)
	@$(folder)/bin/python $(PIP) $(TORCH_CPU) 2>/dev/null \
	  || $(folder)/bin/python $(PIP) --index-url https://download.pytorch.org/whl/cpu $(TORCH_CPU)
	@$(folder)/bin/python $(PIP) --require-hashes -r $(lock)
	@$(folder)/bin/python requirements/name_vllm.py
	@$(folder)/bin/python $(PIP) --no-build-isolation --editable .
	@rm -f $(folder)/.installed-*; touch $@
$(CPU): lock = requirements/cpu.txt
$(NEXT): lock = requirements/cpu-next.txt

$(CUDA):
	@command -v nvidia-smi > /dev/null || { echo "no NVIDIA driver here: 'make rehearsal' runs without one" >&2; exit 2; }
	@echo "Installing vLLM for NVIDIA GPUs and the study into .venv-cuda (several GB) ..."
	@$(PYTHON) -m venv .venv-cuda
	@.venv-cuda/bin/python $(PIP) --require-hashes -r requirements/cuda.txt
	@.venv-cuda/bin/python $(PIP) --no-build-isolation --editable .
	@rm -f .venv-cuda/.installed-*; touch $@
