#!/usr/bin/env bash
# The whole path, as a person would run it:  notebooks/run_all.sh VENV PARAMETERS
# raw records by run_session, tables by read_session, the edition by publish_edition; executed copies lie in the edition.
set -euo pipefail
venv=$1 parameters=$2
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
read -r study data <<< "$("$venv/bin/python" -c '
import sys, yaml
asked = yaml.safe_load(open(sys.argv[1]))
print(asked["study"], asked.get("data_dir", "data"))' "$parameters")"
out=editions/$study/notebooks
mkdir -p "$out"
source notebooks/execute.sh
"$venv/bin/python" -m study plan --parameters "$parameters"
run run_session run_session -f "$parameters"
run read_session read_session -y "study: $study" -y "data_dir: $data"
run publish_edition publish_edition -y "edition: $study" -y "studies: [$study]" -y "data_dir: $data"
echo "edition: editions/$study/index.html"
