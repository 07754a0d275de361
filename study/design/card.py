"""A card that is named and not at hand: what vLLM's configuration code asks a GPU for, and no more."""

import re
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from study.errors import InputError, suggest

EXAMPLE = "sm=8.9,memory=24GiB,tp=1"
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*(GiB|GB|MiB)?", re.IGNORECASE)
_GIB = {"gib": 1.0, "gb": 1e9 / 2**30, "mib": 1 / 1024}


class Card(BaseModel):
    """A GPU as vLLM's configuration code sees it, and over how many of them the model is spread."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sm: str = Field(pattern=r"^\d{1,2}\.\d$")
    """Compute capability, such as 8.9 (L4) or 9.0 (H100, H200)."""
    memory_gib: Annotated[float, Field(gt=0, le=4096)]
    """Memory of one card, GiB: vLLM takes larger batches on larger cards."""
    tp: Annotated[int, Field(ge=1, le=64)] = 1
    """Tensor parallel size."""
    name: str = "pretended card"
    """What the driver would call it; vLLM looks for some names (it treats an A100 in its own way)."""

    @property
    def capability(self) -> tuple[int, int]:
        """Compute capability as two numbers."""
        major, minor = self.sm.split(".")
        return int(major), int(minor)

    @property
    def memory_bytes(self) -> int:
        """Memory of one card, bytes."""
        return round(self.memory_gib * 2**30)

    def __str__(self) -> str:
        """Return the form that `read_card` takes."""
        named = f",name={self.name}" if self.name != Card.model_fields["name"].default else ""
        return f"sm={self.sm},memory={self.memory_gib:g}GiB,tp={self.tp}{named}"


def read_card(text: str) -> Card:
    """Read `sm=8.9,memory=24GiB,tp=1` (memory in GiB, GB or MiB; tp and name may be left out).

    Raises:
        InputError: one line that names what does not fit.

    """
    given: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise InputError(f"card '{text}': '{part.strip()}' needs the form name=value, such as {EXAMPLE}")
        if key not in ("sm", "memory", "tp", "name"):
            raise InputError(f"card '{text}': '{key}' is unknown{suggest(key, ('sm', 'memory', 'tp', 'name'))}")
        if key in given:
            raise InputError(f"card '{text}': '{key}' stands twice; keep one")
        given[key] = value
    for key in ("sm", "memory"):
        if key not in given:
            raise InputError(f"card '{text}' has no '{key}'; a card looks like {EXAMPLE}")
    fields = {"memory_gib": _memory_gib(text, given.pop("memory")), **given}
    try:
        return Card.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(
            f"card '{text}': {first['loc'][0]} is {first['input']!r}, which does not fit; a card looks like {EXAMPLE}"
        ) from None


def _memory_gib(text: str, memory: str) -> float:
    found = _MEMORY.fullmatch(memory)
    if not found:
        raise InputError(f"card '{text}': memory is '{memory}', which is no size; 24GiB, 24GB and 24576MiB work")
    return float(found[1]) * _GIB[(found[2] or "GiB").lower()]
