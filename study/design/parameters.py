"""The parameters of a study: one place for name, type, unit, default and help.

The notebooks' parameters cell, the YAML files under `notebooks/parameters/` and the command line use these names.
Values keep their types: nothing is guessed from text, since papermill's `-p` turns `0.10` into a number and leaves a
list as text.
"""

import hashlib
import json
import os
import re
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from study.design.plain_files import decode_utf8, read_bytes, show_value, shown
from study.design.plain_yaml import MOST_YAML_CHARS, parse_yaml
from study.errors import InputError, suggest

NAME = r"^[a-z0-9][a-z0-9._-]{0,63}$"
Name = Annotated[str, Field(pattern=NAME)]
Users = Annotated[int, Field(ge=1, le=4096)]

NOTEBOOK_NAMES = frozenset({"In", "Out", "exit", "quit", "get_ipython", "open"})
"""Names that a kernel puts into every notebook."""

COMPARABLE = (
    "device",
    "model",
    "load_format",
    "server_flags",
    "pool",
    "input_tokens",
    "output_tokens",
    "waves",
    "min_run_s",
    "fresh_server_per_seed",
    "kv_cache_memory_bytes",
    "session",
    "throttle",
    "cache",
)
"""What makes runs comparable. Seeds, users, levels, margin, card and folders are left out: they can be added."""


class Parameters(BaseModel):
    """One session of a study, as asked for. Frozen; an unknown name or a wrong type is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    study: Name = Field(description="name of the raw folder, data/raw/<study>")
    measure: Literal["speed", "start"] = Field("speed", description="runs under load, or starts alone")
    session: Literal["cooled", "throttled"] = Field("cooled", description="thermal condition of the card")
    levels: list[str] | str = Field(
        default_factory=lambda: ["default", "O0", "O1", "O2", "O3", "eager"],
        description="level names, or a file under notebooks/parameters/levels/",
    )
    users: list[Users] = Field(
        default_factory=lambda: [1, 2, 4, 8, 16, 32, 64], min_length=1, description="requests kept in flight, each once"
    )
    users_published: list[Users] | None = Field(None, description="users that an edition prints; null: all")
    seeds: list[Annotated[int, Field(ge=0, le=2**31)]] = Field(
        default_factory=lambda: [1, 2, 3, 4, 5], min_length=1, description="one block each"
    )
    fresh_server_per_seed: bool = Field(True, description="false: a level is launched once, seeds inside it")
    device: Literal["cuda", "cpu"] = Field("cuda", description="cpu: a rehearsal, never a result")
    model: str = Field(min_length=1, description="hub name, model folder, or a shape file (.yaml) that is made here")
    load_format: str = Field("auto", description="vLLM's --load-format; dummy: random weights")
    trust_remote_code: bool = Field(False, description="true: run Python code that a model's folder brings")
    server_flags: list[str] = Field(default_factory=list, description="more vLLM flags, the same for every level")
    gpu: str | int | list[str | int] | None = Field(
        None, description="UUID or NVML index of the card, or a list, one a card of the server; null: the only ones"
    )
    pool: str = Field("generated", description="generated from the seed, or a JSONL with prompt[, output_tokens]")
    input_tokens: int = Field(256, ge=1, le=1_000_000, description="tokens of a generated prompt")
    output_tokens: int = Field(192, ge=2, le=1_000_000, description="tokens asked for; end of sequence is ignored")
    waves: int = Field(8, ge=1, le=10_000, description="least number of waves in a run")
    min_run_s: float = Field(10.0, ge=0, le=3600, description="least length of a run, s; times the level's factor")
    kv_cache_memory_bytes: int | None = Field(None, ge=1, le=2**50, description="same KV cache for every level, bytes")
    cool_to_c: float | None = Field(None, ge=0, le=110, description="gate, degC; null: idle with the server loaded + 3")
    cool_deadline_s: float = Field(300.0, ge=0, le=7200, description="longest wait at a gate, s")
    throttle: Literal["soak", "as_found", "clock_lock"] = Field("soak", description="how throttling is reached")
    clock_lock_mhz: int | None = Field(None, ge=1, description="SM clock for clock_lock, MHz")
    throttled_below_share: float = Field(0.35, gt=0, lt=1, description="of the highest SM clock: throttled below")
    cache: Literal["warm", "cold"] = Field("warm", description="compile and kernel caches at a launch")
    port: int | None = Field(None, ge=1024, le=65535, description="of the server on 127.0.0.1; null: a free one")
    ready_deadline_s: float = Field(1800.0, ge=1, le=86400, description="longest wait for a server to be ready, s")
    margin: float = Field(0.01, gt=0, lt=1, description="differences inside +-margin do not matter")
    order_seed: int = Field(0, ge=0, le=2**31, description="draws the order of levels in each block")
    data_dir: str = Field("data", min_length=1, description="folder of raw/ and processed/, from the project's root")

    @field_validator("min_run_s", "cool_to_c", "cool_deadline_s", "ready_deadline_s", mode="before")
    @classmethod
    def _whole_seconds(cls, value: object) -> object:
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value

    @field_validator("levels", "users", "seeds", "users_published", "gpu")
    @classmethod
    def _once_each(cls, value: object) -> object:
        if isinstance(value, list) and len(set(value)) != len(value):
            twice = next(item for item in value if value.count(item) > 1)
            raise ValueError(f"{twice!r} stands twice; name each once")
        if value == []:
            raise ValueError("the list is empty; name at least one")
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> "Parameters":
        unknown = sorted(set(self.users_published or ()) - set(self.users))
        if unknown:
            raise ValueError(f"users_published has {unknown[0]}, which is not among users {self.users}")
        self._check_clock_lock()
        if self.cache == "cold" and self.measure == "speed":
            raise ValueError("cache 'cold' goes with measure: start; speed is never measured on a cold start")
        return self

    def _check_clock_lock(self) -> None:
        """Refuse a lock that is asked for in part, or where no card is throttled."""
        if self.throttle != "clock_lock":
            if self.clock_lock_mhz is not None:
                raise ValueError(f"clock_lock_mhz {self.clock_lock_mhz} does nothing without throttle: clock_lock")
        elif self.session != "throttled" or self.device != "cuda":
            raise ValueError("throttle 'clock_lock' goes with session: throttled and device: cuda")
        elif self.clock_lock_mhz is None:
            raise ValueError("throttle 'clock_lock' needs clock_lock_mhz, the SM clock in MHz, such as 600")

    @property
    def rehearsal(self) -> bool:
        """Whether these records can never be a result: everything that runs on the CPU backend."""
        return self.device == "cpu"

    def comparable(self) -> dict[str, Any]:
        """Return the part of the parameters that runs must share to be compared, JSON-ready."""
        shared = {name: getattr(self, name) for name in COMPARABLE}
        # Named only where it says something, so that records without a lock keep their fingerprints.
        return shared if self.clock_lock_mhz is None else {**shared, "clock_lock_mhz": self.clock_lock_mhz}


def is_name(text: object) -> bool:
    """Whether a text can name a study: one that is a folder's name and leads nowhere else."""
    return isinstance(text, str) and re.fullmatch(NAME, text) is not None


def fingerprint(comparable: dict[str, Any]) -> str:
    """Return 16 hexadecimal digits that stand for `comparable` (canonical JSON, SHA-256)."""
    text = json.dumps(comparable, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def make_parameters(values: dict[str, Any]) -> Parameters:
    """Check `values` (name to value) and return the parameters.

    Raises:
        InputError: one line that names the first wrong parameter, its value and what would work.

    """
    for name in values:
        if name not in Parameters.model_fields:
            raise InputError(f"parameter '{shown(name)}' is unknown{suggest(shown(name), Parameters.model_fields)}")
    try:
        return Parameters(**values)
    except ValidationError as error:
        raise InputError(_explain(error)) from None


def read_parameters(path: Path, overrides: dict[str, Any] | None = None) -> Parameters:
    """Read a YAML parameter file; `overrides` replace its values.

    Raises:
        InputError: the file is missing, is not a YAML mapping, names a key twice, or holds a wrong value.

    """
    return make_parameters({**read_yaml(path), **(overrides or {})})


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file whose top is a mapping; a key that stands twice is an error, not an override.

    Raises:
        InputError: the file is missing, is no file, or is no plain YAML (`parse_yaml`); the field or line is named.

    """
    if not os.path.lexists(path):
        raise InputError(f"parameter file '{shown(path)}' does not exist; notebooks/parameters/ has examples")
    what = f"'{shown(path)}'"
    values = parse_yaml(decode_utf8(read_bytes(path, 4 * MOST_YAML_CHARS), what), what)
    if not isinstance(values, dict):
        raise InputError(f"{what} must hold 'name: value' lines, not {type(values).__name__}")
    return values


def given_names(namespace: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a notebook's parameters cell and papermill have set, of its `globals()`: no modules, no functions."""
    return {
        name: value
        for name, value in namespace.items()
        if not name.startswith("_")
        and name not in NOTEBOOK_NAMES
        and not isinstance(value, types.ModuleType | types.FunctionType | type)
    }


def _explain(error: ValidationError) -> str:
    """Turn pydantic's first complaint into one line with the value and what would work."""
    first = error.errors()[0]
    path = [str(part) for part in first["loc"] if str(part) in Parameters.model_fields or isinstance(part, int)]
    message = first["msg"].removeprefix("Value error, ")
    if not path:
        return shown(message)
    name = path[0]
    if first["type"] == "missing" or (first["input"] is None and Parameters.model_fields[name].is_required()):
        return f"parameter '{name}' is missing: {Parameters.model_fields[name].description}"
    value = first["input"]
    hint = ""
    if name in ("users", "seeds", "users_published", "levels") and not isinstance(value, list) and len(path) == 1:
        text = str(value) if isinstance(value, str) else show_value(value)
        hint = f'; a list is needed: -y "{name}: {text if text.startswith("[") else f"[{show_value(value)}]"}"'
    elif first["type"] == "string_type" and isinstance(value, bool | int | float):
        hint = "; put text in quotes: to YAML yes, no, on and off are true or false, and 2026.10 is a number"
    elif isinstance(value, str) and first["type"] != "string_pattern_mismatch":
        hint = "; -p keeps lists and nulls as text: use -y, or a file with -f"
    where = name if len(path) == 1 else f"{name}[{path[1]}]"
    return f"parameter '{where}': {show_value(value)} does not fit ({shown(message).lower()}; {_kind(name)}){hint}"


def _kind(name: str) -> str:
    """Return what a parameter takes, in a few words."""
    field = Parameters.model_fields[name]
    choices = get_args(field.annotation)
    if choices and all(isinstance(choice, str) for choice in choices):
        return "one of " + ", ".join(choices)
    return field.description or ""


def describe_parameters() -> list[dict[str, str]]:
    """Return a row (name, type, default, help) for each parameter, for the documentation."""
    rows = []
    for name, field in Parameters.model_fields.items():
        default = field.get_default(call_default_factory=True, validated_data={})
        kind = str(field.annotation).replace("typing.", "")
        rows.append(
            {
                "name": name,
                "type": field.annotation.__name__ if isinstance(field.annotation, type) else kind,
                "default": "required" if field.is_required() else json.dumps(default),
                "help": field.description or "",
            }
        )
    return rows
