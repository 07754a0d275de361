"""Resolves levels with the installed vLLM, in a process of its own: no server, and no GPU where a card is named."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from study.design.card import Card
from study.design.levels import Level
from study.design.resolved_set import ResolvedFor, ResolvedLevel, ResolvedSet
from study.errors import InputError, StudyError
from study.measure.redact import redact
from study.measure.server_spec import mask_secrets
from study.measure.vllm_child import run_child

CHILD = "study.measure.resolve_child"


@dataclass(frozen=True)
class ResolveRequest:
    """What to resolve.

    Attributes:
        levels: in their order.
        model: a hub name or a folder, relative to the project's root (`measure.model.prepare_model`).
        server_flags: the same for every level.
        card: the card to pretend; None: this machine's platform.

    """

    levels: tuple[Level, ...]
    model: str
    server_flags: tuple[str, ...] = ()
    card: Card | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the request as the child reads it."""
        spread = ("--tensor-parallel-size", str(self.card.tp)) if self.card and self.card.tp > 1 else ()
        return {
            "ask": "resolve",
            "inspected": False,
            "card": self.card.model_dump() if self.card else None,
            "model": self.model,
            "flags": [*spread, *self.server_flags],
            "levels": [_level_json(level) for level in self.levels],
        }


def _level_json(level: Level) -> dict[str, Any]:
    return {name: getattr(level, name) for name in ("name", "flags", "llm", "environment")}


def resolve_levels(request: ResolveRequest, root: Path) -> ResolvedSet:
    """Resolve every level with the installed vLLM; a level that it refuses has its reason.

    Args:
        request: what to resolve.
        root: the project's root, from which the model's folder is taken.

    Raises:
        InputError: vLLM is not installed, does not know a flag (with the nearest that it has), or has no device here
            and no card was named.
        StudyError: the process that asks vLLM failed.

    """
    asked = request.as_json()
    told = ask_child(asked, root)
    if "unready" in told:
        with contextlib.suppress(StudyError):  # what is wrong with the model, the levels will say
            ask_child({**asked, "ask": "inspect", "card": None, "levels": []}, root)
        told = ask_child({**asked, "inspected": True}, root)
    if told["platform"] in ("", "unknown"):
        raise InputError("vLLM finds no device on this machine; name a card: --as-gpu sm=8.9,memory=24GiB,tp=1")
    plain: dict[str, Any] = redact(mask_secrets(told), root)
    levels = [
        _typed_level(level, answer) for level, answer in zip(request.levels, plain["levels"], strict=True)
    ]
    return ResolvedSet(
        vllm_version=plain["vllm_version"],
        resolved_for=ResolvedFor(
            platform=plain["platform"],
            pretended=request.card,
            device_name="" if request.card else plain["device_name"],
            left_out=tuple(plain["left_out"]),
        ),
        model=request.model,
        server_flags=request.server_flags,
        levels=tuple(levels),
    )


def _typed_level(level: Level, answer: Mapping[str, Any]) -> ResolvedLevel:
    resolved = answer.get("resolved")
    if resolved is not None:
        resolved = {name: value for name, value in resolved.items() if name != "instance_id"}  # drawn at each start
    return ResolvedLevel(
        name=level.name,
        flags=level.flags,
        llm=level.llm,
        environment=level.environment,
        use_for=level.use_for,
        requested=answer.get("requested", {}),
        resolved=resolved,
        refusal=answer.get("refusal"),
        changed=tuple(answer.get("changed", ())),
        cannot_tell=answer.get("cannot_tell", {}),
        llm_differs=answer.get("llm_differs"),
        llm_reason=answer.get("llm_reason", "" if resolved is not None else "vLLM refuses the flags"),
        at_worker=answer.get("at_worker"),
    )


def ask_child(request: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """Run the child on one request and return its answer.

    Raises:
        InputError: vLLM is not installed in this Python, or does not take a flag (with the nearest that it has).
        StudyError: the child failed or did not end in time.

    """
    # Where a card is pretended, none of this machine is to be asked.
    answer = run_child(CHILD, request, root, {"CUDA_VISIBLE_DEVICES": ""} if request["card"] else None)
    if answer.get("problem"):
        raise InputError(answer["problem"])
    return answer
