"""The flags that tests of the harness give to a server."""


def make_arg_parser(parser):
    parser.add_argument("-O", dest="optimization_level", type=int)
    parser.add_argument("--enforce-eager", action="store_true")
    parser.add_argument("-cc", action="store_true")
    for name in ("--max-model-len", "--kv-cache-memory-bytes"):
        parser.add_argument(name, type=int)
    parser.add_argument("--tensor-parallel-size", "-tp", type=int)
    return parser
