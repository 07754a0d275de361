"""An argument parser that reads `-O0` and dotted flags, whatever is behind the dot."""

import argparse
import re


class FlexibleArgumentParser(argparse.ArgumentParser):
    def parse_args(self, args=None, namespace=None):
        names = [re.sub(r"^(-+[\w-]+)\..*$", r"\1", item) for item in args]
        return super().parse_args(names, namespace)
