"""What a notebook's kernel is to a runner: the process that started it, holds its pipes and reads what it says.

    python tests/chaos/kernel.py COMMAND ...
"""

import subprocess
import sys


def main(command):
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    with process:
        for line in process.stdout:
            print(line, end="", flush=True)
    return process.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
