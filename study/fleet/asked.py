"""What a fleet is asked for, apart from what it measures: where the machines are, and how blocks are dealt to them."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from study.design.parameters import Parameters, given_names, make_parameters
from study.design.plain_files import shown
from study.errors import InputError


@dataclass(frozen=True)
class FleetOptions:
    """How a fleet is run.

    Attributes:
        address: of a running Ray cluster, `auto` or `host:port`; None: Ray is started on this machine alone.
        accelerator_type: kinds of card by Ray's names (`H200`, `L4`); blocks are dealt to them in turn. Empty: any.
        blocks_per_node: blocks that one machine may measure at once.
        retries: how often a block is begun again after its machine was lost or its runner failed.
        shared: the project's folder where it lies at the same path on every machine; None: it is sent there.
        time_limit_s: start nothing that would take longer, s.
        events: JSON lines on standard output, for a program.

    """

    address: str | None = None
    accelerator_type: tuple[str, ...] = ()
    blocks_per_node: int = 1
    retries: int = 3
    shared: str | None = None
    time_limit_s: float | None = None
    events: bool = False


FLEET_NAMES = tuple(field.name for field in fields(FleetOptions) if field.name != "events")
"""What the notebook's parameters cell has beside the parameters of a study."""


def make_options(values: Mapping[str, Any]) -> FleetOptions:
    """Check `values` (name to value) and return the options.

    Raises:
        InputError: one line that names the wrong value and what would work.

    """
    kinds = values.get("accelerator_type") or ()
    options = FleetOptions(**{**values, "accelerator_type": (kinds,) if isinstance(kinds, str) else tuple(kinds)})
    for name, least in (("blocks_per_node", 1), ("retries", 0)):
        value = getattr(options, name)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= 64:
            raise InputError(f"{name} {shown(value)} does not fit; a whole number from {least} to 64 works")
    if options.address is not None and options.address.startswith("ray://"):
        raise InputError(
            f"address '{shown(options.address)}' is Ray's client port; start the fleet on a machine of the cluster, "
            "with --address auto"
        )
    if options.address is None and options.shared is not None:
        raise InputError(f"shared '{shown(options.shared)}' goes with --address; one machine has its own folder")
    return options


def read_fleet_parameters(namespace: Mapping[str, Any]) -> tuple[Parameters, FleetOptions]:
    """Return what a notebook's parameters cell and papermill have set: the study's parameters, and the fleet's options.

    Args:
        namespace: the notebook's `globals()`, before anything but parameters was assigned.

    Raises:
        InputError: a name that is no parameter, a missing one, or a wrong value.

    """
    given = given_names(namespace)
    options = {name: given.pop(name) for name in FLEET_NAMES if name in given}
    return make_parameters(given), make_options(options)


def arguments_of(options: FleetOptions) -> list[str]:
    """Return the arguments with which the command line makes these options."""
    single = {name: getattr(options, name) for name in FLEET_NAMES if name != "accelerator_type"}
    words = [f"--{name.replace('_', '-')}={value}" for name, value in single.items() if value is not None]
    return [*words, *(f"--accelerator-type={kind}" for kind in options.accelerator_type)]
