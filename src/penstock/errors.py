"""The one error and the one warning of Penstock, each with a one-line message."""

from typing import Self


class PenstockError(ValueError):
    """Penstock cannot use a given value; the message is one line with the fix."""

    @classmethod
    def setting(cls, name: str, value: object, accepted: str, fix: str = "") -> Self:
        """An error that names the setting, the value given, what is accepted and, if not obvious, the fix.

        >>> print(PenstockError.setting("runs", 0, "a whole number from 1 up"))
        runs = 0 is not usable: give a whole number from 1 up
        """
        tail = f"; {fix}" if fix else ""
        return cls(f"{name} = {value!r} is not usable: give {accepted}{tail}")


class PenstockWarning(UserWarning):
    """A result needs care; the message is one line with the reason."""


class Shown(str):
    """A text that an error shows as it is, instead of a value."""

    __slots__ = ()
    __repr__ = str.__str__
