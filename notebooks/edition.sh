#!/usr/bin/env bash
# An edition from raw records, without a GPU:  notebooks/edition.sh VENV EDITION [STUDY ...]
# Its files are the same bytes for the same records; executed copies of the notebooks that show how it is known lie in it.
set -euo pipefail
venv=$1 edition=$2
shift 2
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
"$venv/bin/python" -m study edition "$edition" "$@"
out=editions/$edition/notebooks
mkdir -p "$out"
source notebooks/execute.sh
studies=$("$venv/bin/python" -c '
import sys, yaml
print(*yaml.safe_load(open(sys.argv[1]))["studies"])' "editions/$edition/edition.yaml")
for study in $studies; do
  run read_session "read_session-$study" -y "study: '$study'"
done
run publish_edition publish_edition -y "edition: '$edition'" -y "studies: [${studies// /, }]"
echo "edition: editions/$edition/index.html"
