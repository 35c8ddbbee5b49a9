"""Only a process that is certainly dead counts as gone: its name is taken over at once."""

import os
import subprocess
import sys

from omniflow.registry import process_is_gone, this_host


def test_a_living_process_is_not_gone() -> None:
    assert not process_is_gone(this_host(), os.getpid())


def test_an_ended_process_of_this_host_is_gone_also_before_its_parent_has_noticed() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    assert process_is_gone(this_host(), ended.pid)
    ended.wait()
    assert process_is_gone(this_host(), ended.pid)


def test_nothing_is_known_of_processes_of_other_hosts() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert not process_is_gone("elsewhere", ended.pid)
    assert not process_is_gone(this_host(), 0)
