"""The one error and the one warning a user meets, each told in one line."""

from typing import Self


class PenstockError(ValueError):
    """Something given to Penstock cannot be used; the message is one line that says how to mend it."""

    @classmethod
    def setting(cls, name: str, value: object, accepted: str, fix: str = "") -> Self:
        """An error that names the setting, the value given, what is accepted and, if not obvious, the fix.

        >>> print(PenstockError.setting("runs", 0, "a whole number from 1 up"))
        runs = 0 is not usable: give a whole number from 1 up
        """
        tail = f"; {fix}" if fix else ""
        return cls(f"{name} = {value!r} is not usable: give {accepted}{tail}")


class PenstockWarning(UserWarning):
    """What was asked for is given, and is not what it seems to be; the message is one line that says why."""
