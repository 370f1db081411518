"""A guard's claim to a folder: the settings that identify rows, so that no other guard uses its plans."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from penstock.errors import PenstockError


@dataclass(frozen=True, slots=True)
class Claim:
    """The content of the file guard.json."""

    name: str  #: of the guard, the query of a `Fair`, or the grouping
    key: tuple[str, ...] = ()  #: columns that identify rows; empty if there are none
    row: tuple[str, ...] = ()  #: columns that identify a row; empty for all of them
    cost_column: str | None = None  #: the column with the cost of a row, if the policy uses one
    seed: int = 0  #: seed of the hash by which rows are chosen
    sources: tuple[str, ...] = ()  #: of the query of a `Fair`
    #: The column that determines the worth of a row, and the worth of each range of its values.
    value: tuple[str, tuple[tuple[float, float, float], ...]] | None = None

    def to_json(self) -> str:
        """As it is written.

        >>> Claim("clicks", key=("user",), seed=7).to_json()
        '{"name": "clicks", "key": ["user"], "seed": 7}'
        """
        return json.dumps({name: value for name, value in asdict(self).items() if value not in (None, (), 0)})

    @classmethod
    def from_json(cls, text: str) -> "Claim":
        """What `to_json` wrote.

        >>> Claim.from_json('{"name": "clicks", "key": ["user"], "seed": 7}').seed
        7

        Raises:
            PenstockError: If it is no claim.
        """
        try:
            found: dict[str, Any] = json.loads(text)
            value = found.pop("value", None)
            lists = {name: found.get(name) or [] for name in ("key", "row", "sources")}
            if not all(isinstance(one, list) for one in lists.values()):
                raise TypeError  # noqa: TRY301 - it is damaged like the others
            found |= {name: tuple(one) for name, one in lists.items()}
            return cls(**found, value=value and (value[0], tuple(tuple(one) for one in value[1])))
        except (ValueError, TypeError, AttributeError, LookupError, RecursionError):
            raise PenstockError("it is damaged") from None

    def differences(self, here: "Claim") -> list[str]:
        """The differences to another claim, as text."""
        there, ours = asdict(self), asdict(here)
        return [
            f"{name} {_shown(there[name])} there, {_shown(ours[name])} here"
            for name in there
            if there[name] != ours[name]
        ]


def _shown(value: object) -> str:
    return repr(list(value)) if isinstance(value, tuple) else repr(value)
