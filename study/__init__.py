"""What each vLLM compile level costs on your own GPU: at server start and on every token after it.

Data moves one way: parameters -> plan -> raw records -> tables and validity -> comparisons -> recommendations ->
edition. The folders follow it: `design`, `measure`, `analyze`, `publish`.
"""

__version__ = "0.1.0"
