"""Errors and warnings. Their sentences are those of the command line: what is wrong, where, and how to correct it."""
from __future__ import annotations


class Error(Exception):
    """A failure, with the sentence that the command line prints.

    `hint` is how to correct it ("" where nothing is known), `exit_code` the code with which the program would have ended.

        try:
            of.compile("gpt2-124m", batch=0)
        except of.Error as error:
            print(error.hint)
    """

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class InputError(Error, ValueError):
    """What was asked for is wrong: a value, a name, a file; or no plan fits. Nothing was written."""

    exit_code = 2


class LimitError(Error):
    """A plan costs more than `fail_above` of diff allows."""

    exit_code = 3


class Warning(UserWarning):
    """Something that was asked for has no effect, or not the one that it seems to have."""


def error_for(exit_code: int, message: str, hint: str) -> Error:
    """The exception of an exit code that is not 0."""
    kinds = {kind.exit_code: kind for kind in (InputError, LimitError)}
    return kinds.get(exit_code, Error)(message, hint)
