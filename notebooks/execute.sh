# For the scripts beside it, which set `venv` and `out`: an executed copy of a notebook.
run() { # run NOTEBOOK COPY [papermill options]
  local name=$1 copy=$2
  shift 2
  "$venv/bin/papermill" --no-progress-bar --log-level WARNING "notebooks/$name.ipynb" "$out/$copy.ipynb" "$@"
}
