"""One night per history at a time: a lease that is renewed while its holder is at work.

A holder that has died is succeeded: at once if its process ran on this machine, else when the lease has run out. A
holder that was only paused finds out when it writes: the storage of the history refuses what comes under an old number.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from fusion.errors import OutputError
from jobs.nights.tables import FencedError, Holder, Storage
from jobs.runtime.log import log

POLL_SECONDS = 0.5
BEATS = 6
"""How often a lease is renewed before it would run out."""


@dataclass
class Lease:
    """A lease that is held."""

    holder: Holder
    lost: str | None = None
    """Why the lease is no longer held, as far as is known."""

    @property
    def number(self) -> int:
        return self.holder.number

    def check(self) -> None:
        """Stop work that would be refused in the end."""
        if self.lost is not None:
            raise FencedError(self.lost)


@contextmanager
def held_lease(
    storage: Storage, run_id: str, seconds: float, wait: float = 0, broken: str | None = None
) -> Iterator[Lease]:
    """Hold the lease while the block runs. Another holder is waited for, then named in the refusal.

    `broken` names a night whose lease is taken over even though it has not run out.
    """
    lease = Lease(_taken(storage, run_id, seconds, wait, broken))
    done = threading.Event()
    thread = threading.Thread(target=_renewed, args=(storage, lease, done), name="lease", daemon=True)
    thread.start()
    try:
        yield lease
    finally:
        done.set()
        thread.join()
        try:
            storage.release(lease.holder)
        except Exception as error:
            # It runs out by itself; the verdict of the night matters more.
            log(f"the lease of night {run_id} was not given back, and runs out in {seconds:g} s: {error}")


def _taken(storage: Storage, run_id: str, seconds: float, wait: float, broken: str | None) -> Holder:
    pid, until, announced = os.getpid(), time.monotonic() + wait, False
    while True:
        other = storage.holder()
        if other is None or _is_over(other, broken):
            number = 1 if other is None else other.number + 1
            now = time.time()
            holder = Holder(
                number=number,
                run_id=run_id,
                host=socket.gethostname(),
                pid=pid,
                birth=_birth(pid),
                since=_stamp(now),
                beat=now,
                seconds=seconds,
            )
            if storage.take(holder):
                return holder
            # Another one was faster; who that was is asked again.
            time.sleep(POLL_SECONDS / 10)
        elif time.monotonic() >= until:
            raise OutputError(
                f"{other} has been running since {other.since}. Wait for it with --set nightly.wait=SECONDS or, if it "
                f"is known to be dead, take over with --break-lock {other.run_id}"
            )
        else:
            if not announced:
                log(f"waiting for {other}")
                announced = True
            time.sleep(POLL_SECONDS)


def _is_over(holder: Holder, broken: str | None) -> bool:
    """Whether a lease may be taken from its holder."""
    if not holder.beat:
        return True
    if holder.run_id == broken:
        log(f"the lease of {holder} is broken, as asked")
        return True
    if holder.host == socket.gethostname() and _birth(holder.pid) not in (holder.birth, None):
        log(f"the lease of night {holder.run_id} is taken over: its process {holder.pid} is gone")
        return True
    silent = time.time() - holder.beat
    if silent > holder.seconds:
        log(f"the lease of {holder} is taken over: it has been silent for {silent:.0f} s")
        return True
    return False


def _renewed(storage: Storage, lease: Lease, done: threading.Event) -> None:
    """Renew a lease until the work is done, or another night has it."""
    while not done.wait(lease.holder.seconds / BEATS):
        try:
            storage.beat(replace(lease.holder, beat=time.time()))
        except FencedError as error:
            lease.lost = str(error)
            return
        except Exception as error:
            # A store that does not answer may do so the next time; until then the lease is still ours.
            log(f"the lease could not be renewed: {error}")


def _birth(pid: int) -> str | None:
    """When a process was born, as the system counts; empty if it has ended, None where the system does not say.

    Process ids are used again; their births distinguish them.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except (PermissionError, OverflowError):
        pass
    try:
        # The name of a process, in brackets, may hold anything. Its state follows, and 19 fields later its birth.
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return None
    return "" if state == "Z" else fields[18]


def _stamp(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(moment))
