"""Resolved sets: what each level of a set becomes in one release of vLLM, on one card or platform, for one model.

History of the schema (`SCHEMA_VERSION`):
    1  first version.

A set is no raw record: no server ran. Each configuration has the shape of `/server_info?config_format=json`, so that
what reads a launch's record reads this too.
"""

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from study.design.card import Card
from study.errors import InputError

SCHEMA_VERSION: Literal[1] = 1


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ResolvedFor(_Frozen):
    """What the levels were resolved for."""

    platform: str = Field(description="vLLM's name of the platform: cuda, cpu, ...")
    pretended: Card | None = Field(description="the card that was named; null: the platform of this machine")
    device_name: str
    left_out: tuple[str, ...] = Field((), description="what of vLLM had to be left out to pretend a card")

    def __str__(self) -> str:
        """Say it in a few words."""
        if self.pretended:
            return f"a pretended card ({self.pretended}), no GPU asked"
        named = f" ({self.device_name})" if self.device_name else ""
        return f"this machine's {self.platform.upper()} platform{named}"


class AtWorker(_Frozen):
    """What a worker's attention backend would do to the graphs, as far as can be told without one."""

    backend: str | None = Field(description="the attention backend that vLLM would choose here; null: cannot tell")
    graph_support: str | None = Field(description="name of the backend's AttentionCGSupport")
    cudagraph_mode: Any = Field(None, description="the mode then, in the form of the resolved configuration")
    said: tuple[str, ...] = Field((), description="the lines that vLLM logs about it")
    passed_over: tuple[str, ...] = Field((), description="backends of higher rank whose package is missing here")
    reason: str = Field("", description="why it cannot be told")


class ResolvedLevel(_Frozen):
    """One level: what was asked, and what vLLM's configuration code made of it, or why it refused."""

    name: str
    flags: tuple[str, ...] = ()
    llm: dict[str, Any] = {}
    environment: dict[str, str] = {}
    use_for: str = ""
    requested: dict[str, Any] = Field({}, description="dotted path to the value that the level's flags set")
    resolved: dict[str, Any] | None
    refusal: str | None
    changed: tuple[str, ...] = Field((), description="lines logged while it was resolved that tell of a change")
    cannot_tell: dict[str, str] = Field({}, description="dotted path of what only a running worker knows, and why")
    llm_differs: tuple[str, ...] | None = Field(
        description="dotted paths in which LLM(**llm) resolves otherwise than the flags; null: it could not be compared"
    )
    llm_reason: str = Field("", description="why the two could not be compared")
    at_worker: AtWorker | None

    @model_validator(mode="after")
    def _one_of_both(self) -> "ResolvedLevel":
        if (self.resolved is None) == (self.refusal is None):
            raise ValueError(f"level '{self.name}' needs a resolved configuration or a refusal, and not both")
        return self


class ResolvedSet(_Frozen):
    """All levels of one set, resolved by one vLLM."""

    schema_version: Literal[1] = SCHEMA_VERSION
    kind: Literal["resolved_set"] = "resolved_set"
    vllm_version: str
    resolved_for: ResolvedFor
    model: str
    server_flags: tuple[str, ...] = ()
    levels: tuple[ResolvedLevel, ...]

    def dump(self) -> str:
        """Return the set as JSON text: the same bytes for the same content, one line a level."""
        values = self.model_dump(mode="json")
        levels = ",\n".join(json.dumps(level, sort_keys=True) for level in values.pop("levels"))
        head = json.dumps(values, sort_keys=True, indent=1)
        return f'{head[:-2]},\n "levels": [\n{levels}\n]}}\n'


def read_resolved_set(path: Path) -> ResolvedSet:
    """Read a set that `study switches --out` wrote.

    Raises:
        InputError: the file is missing, is no resolved set, or has a schema that this version does not read.

    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"resolved set '{path}' cannot be read: {error.strerror}") from None
    except ValueError:
        raise InputError(f"'{path}' is no JSON; `study switches --out FILE` writes a resolved set") from None
    if not isinstance(values, dict) or values.get("kind") != "resolved_set":
        raise InputError(f"'{path}' is no resolved set; `study switches --out FILE` writes one")
    if values.get("schema_version") != SCHEMA_VERSION:
        asked = values.get("schema_version")
        raise InputError(f"'{path}' has schema version {asked}; this version reads {SCHEMA_VERSION}")
    try:
        return ResolvedSet.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(f"'{path}': {where}: {first['msg'].removeprefix('Value error, ')}") from None
