"""Waiting for what tells nobody when it changes: files of another program, states at Slurm."""
import threading
import time


def wait_for(what, condition, seconds=30):
    """Waits until condition() is true; returns what it was. `what` names it in the error."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        threading.Event().wait(0.02)
    raise AssertionError(f"{what}: not within {seconds} s")
