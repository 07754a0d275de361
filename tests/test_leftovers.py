"""What launches leave is removed; what is not ours, or whose owner lives, is never touched."""

import getpass
import os
import signal
import subprocess
import sys
import time
from multiprocessing import shared_memory
from pathlib import Path

import pytest

from study.measure.leftovers import OWNER_FILE, LaunchFolder, end_orphans, remove_leftovers, temporary_caches
from study.measure.processes import MARK, find_marked, is_running, make_mark, read_mark, read_owner, read_stat
from study.measure.shared_memory import NOTES, note_shared_memory, read_notes, remove_shared_memory

ROOT = Path(__file__).parent.parent


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A temporary folder of this test's own."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def dead_mark():
    """The mark of an owner that is dead: a process that made it and ended."""
    code = "from study.measure.processes import make_mark; print(make_mark())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT).stdout.strip()


@pytest.fixture
def start():
    """Start sleeping processes with a mark; they are ended after the test."""
    started = []

    def start_one(mark, code="import time; time.sleep(60)"):
        environment = {**os.environ, MARK: mark}
        started.append(
            subprocess.Popen(
                [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, start_new_session=True
            )
        )
        return started[-1]

    yield start_one
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def make_abandoned(place, mark, name="study-launch-dead"):
    folder = place / name
    folder.mkdir()
    (folder / OWNER_FILE).write_text(mark)
    (folder / "vllm_dist_1").write_text("")
    return folder


def wait_until(condition, deadline_s=5.0):
    deadline = time.monotonic() + deadline_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def test_a_mark_names_its_owner_and_tells_whether_it_lives(dead_mark):
    assert read_owner(make_mark()).pid == os.getpid()
    assert read_owner(make_mark()).alive()
    assert not read_owner(dead_mark).alive()


def test_a_later_process_of_the_same_number_is_not_the_owner():
    namespace, pid, start, nonce = make_mark().split(":")
    assert not read_owner(f"{namespace}:{pid}:{int(start) + 1}:{nonce}").alive()


@pytest.mark.parametrize("text", ["", "a:b:c:d", "1:2:3", "1:2:x:4", "a:-1:2:3"])
def test_a_text_that_is_no_mark_names_nobody(text):
    assert read_owner(text) is None


def test_an_owner_in_another_namespace_counts_as_alive(dead_mark):
    assert read_owner("4026531999:" + dead_mark.partition(":")[2]).alive()


def test_the_folder_of_a_dead_owner_is_removed(place, dead_mark):
    folder = make_abandoned(place, dead_mark)
    assert remove_leftovers() == [folder]
    assert not folder.exists()


def test_folders_of_others_stay(place, dead_mark):
    living = make_abandoned(place, make_mark(), "study-launch-living")
    nobodys = place / "study-launch-nobodys"
    nobodys.mkdir()
    strangers = make_abandoned(place, dead_mark, "strange-study-launch")
    link = place / "study-launch-link"
    link.symlink_to(strangers)
    (place / "study-launch-file").write_text(dead_mark)
    assert remove_leftovers() == []
    assert all(path.exists() for path in (living, nobodys, strangers, link))


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder to another user")
def test_a_folder_of_another_user_stays(place, dead_mark):
    folder = make_abandoned(place, dead_mark)
    os.chown(folder, 12345, 12345)
    assert remove_leftovers() == []
    assert folder.exists()


def test_the_server_keeps_its_files_in_the_launchs_folder_and_its_caches_where_they_were(place, monkeypatch):
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    monkeypatch.delenv("CUTE_DSL_CACHE_DIR", raising=False)
    monkeypatch.setenv("QUACK_CACHE_DIR", "where-the-user-keeps-it")
    monkeypatch.setattr("study.measure.leftovers.LONGEST_FOLDER", 1000)
    folder = LaunchFolder()
    environment = folder.server_environment
    assert environment["TMPDIR"] == str(folder.path)
    assert Path(environment["TORCHINDUCTOR_CACHE_DIR"]).parent == place
    # cutlass-dsl 4.7.1 and quack 0.6.5: a folder of the user's name in the temporary folder.
    assert Path(environment["CUTE_DSL_CACHE_DIR"]) == place / getpass.getuser() / "cutlass_python_cache"
    assert environment["QUACK_CACHE_DIR"] == "where-the-user-keeps-it"
    assert list(environment)[-1] == MARK
    folder.remove()
    assert not folder.path.exists()


def test_a_long_path_is_no_place_for_sockets(place, monkeypatch):
    monkeypatch.setattr("study.measure.leftovers.LONGEST_FOLDER", 10)
    folder = LaunchFolder()
    assert "TMPDIR" not in folder.server_environment
    folder.remove()


@pytest.mark.server
def test_inductors_cache_is_where_torch_has_it(monkeypatch):
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    code = "from torch._inductor.runtime.cache_dir_utils import default_cache_dir; print(default_cache_dir())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert temporary_caches()["TORCHINDUCTOR_CACHE_DIR"] == done.stdout.strip()


def test_an_orphan_is_ended_and_nobody_else(start, dead_mark):
    orphan, ours, strangers = start(dead_mark), start(make_mark()), start("no mark")
    assert wait_until(lambda: orphan.pid in find_marked())
    assert set(end_orphans(patience_s=0.1)) <= {orphan.pid}  # a session of a test beside this one may come first
    assert orphan.wait() == -signal.SIGKILL
    assert is_running(ours.pid)
    assert is_running(strangers.pid)


LEAD = """
import os, subprocess, sys, time
environment = {name: value for name, value in os.environ.items() if name != sys.argv[1]}
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], env=environment)
print(child.pid, flush=True)
time.sleep(60)
"""


def lead(mark):
    """Start a session whose leader is marked, with a process in it that has lost its mark; return both."""
    command = [sys.executable, "-c", LEAD, MARK]
    leader = subprocess.Popen(command, env={**os.environ, MARK: mark}, stdout=subprocess.PIPE, start_new_session=True)
    return leader, int(leader.stdout.readline())


def test_an_engine_that_wrote_over_its_mark_is_ended_with_its_servers_session(dead_mark):
    leader, engine = lead(dead_mark)
    assert set(end_orphans(patience_s=0.1)) <= {leader.pid, engine}
    assert leader.wait() == -signal.SIGKILL
    leader.stdout.close()
    assert wait_until(lambda: not is_running(engine))


def test_an_orphan_that_its_guard_ends_is_not_killed_here(start, dead_mark):
    orphan = start(dead_mark, "import time; time.sleep(0.5)")
    assert wait_until(lambda: orphan.pid in find_marked())
    assert end_orphans(patience_s=10.0) == []
    assert orphan.wait() == 0


def test_what_carries_a_launchs_mark_is_ended_with_its_folder(place, start):
    folder = LaunchFolder()
    process, other = start(folder.mark), start(make_mark())
    assert wait_until(lambda: read_mark(process.pid) == folder.mark)
    folder.remove()
    assert process.wait() == -signal.SIGKILL
    assert is_running(other.pid)


MAP = """
from multiprocessing import resource_tracker, shared_memory
memory = shared_memory.SharedMemory(create=True, size=64)
resource_tracker.unregister(memory._name, "shared_memory")
print(memory.name, flush=True)
import time; time.sleep(60)
"""


def test_shared_memory_is_removed_once_nobody_has_it(tmp_path, start):
    process = start(make_mark(), MAP)
    name = process.stdout.readline().decode().strip()
    note_shared_memory(tmp_path, {process.pid})
    assert [noted for _, noted in read_notes(tmp_path)] == [name]
    assert remove_shared_memory(tmp_path) == []  # in use
    process.kill()
    process.wait()
    assert Path("/dev/shm", name).exists()
    assert remove_shared_memory(tmp_path) == [name]
    assert not Path("/dev/shm", name).exists()


def test_shared_memory_of_others_stays_even_under_a_name_that_was_ours(tmp_path):
    memory = shared_memory.SharedMemory(create=True, size=64)
    try:
        memory.buf[:1] = b"x"
        path = Path("/dev/shm", memory.name)
        (tmp_path / NOTES).write_text(f"{path.stat().st_ino + 1} {memory.name}\n")
        assert remove_shared_memory(tmp_path) == []
        assert path.exists()
    finally:
        memory.close()
        memory.unlink()


@pytest.mark.parametrize("line", ["12 ../etc/passwd\n", "12", "x psm_1\n", "\n", "12 psm_cut"])
def test_a_note_that_is_none_is_left_out(tmp_path, line):
    (tmp_path / NOTES).write_text(line)
    assert read_notes(tmp_path) == set()


def test_the_start_of_a_process_is_counted_from_boot():
    words = Path("/proc/self/stat").read_text().rpartition(") ")[2].split()
    assert read_stat(os.getpid()).start == int(words[19])
