"""A fleet as its own process, followed as a session is: a lost notebook ends it in order, and loses nothing stored."""

from study.design.parameters import Parameters
from study.fleet.asked import FleetOptions, arguments_of
from study.session import SessionEnd, follow_session


def follow_fleet(parameters: Parameters, options: FleetOptions) -> SessionEnd:
    """Run a fleet in its own process and show one progress bar with the time left.

    Raises:
        InputError: the fleet, or a machine of it, refused its input.
        StudyError: the fleet ended with an error; what came back stays.

    """
    return follow_session(parameters, command=("fleet", *arguments_of(options)))
