"""A raw folder in which everything fits: for tests that spoil one thing of it."""

import hashlib

from make_records import STUDY, make_launch, make_run

from study.design.levels import Level
from study.design.parameters import make_parameters
from study.records import SessionRecord
from study.store import Store

LOG = "a log\n"
USERS = (1, 2)


def write_whole_study(data_dir, users=USERS, **shape):
    """Write a session, a launch of the default level with its log, and a run at each number of users.

    `shape` makes the runs smaller: `waves`, `tokens`.
    """
    store = Store(data_dir, STUDY)
    store.raw.mkdir(parents=True)
    launch = make_launch()
    missing = {name: why for name, why in launch.missing.items() if name != "log_sha256"}
    log = store.log_path(launch.launch_id)
    log.write_text(LOG)
    digest = hashlib.sha256(LOG.encode()).hexdigest()
    launch = launch.model_copy(update={"log": log.name, "log_sha256": digest, "missing": missing})
    store.write(launch)
    for position, count in enumerate(users):
        store.write(make_run(launch, count, position=position, **shape))
    store.write(make_session(launch.fingerprint, users))
    return store


def make_session(fingerprint, users=USERS, number=1):
    """What was asked for: one block of the default level at these users."""
    values = {"study": STUDY, "model": "m", "levels": ["default"], "users": list(users), "seeds": [1]}
    asked = make_parameters(values).model_dump(mode="json", exclude={"data_dir"})
    levels = [Level(name="default").model_dump(mode="json")]
    shared = {"study": STUDY, "fingerprint": fingerprint, "session_id": str(number)}
    return SessionRecord(**shared, asked=asked, levels=levels)
