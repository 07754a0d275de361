"""Claims: what a text says about vLLM's switches, in a form that the installed vLLM can be asked. They are data.

    claims file (YAML) -> checks -> answers of the installed vLLM (`measure`) -> verdicts (`analyze`)

A claim has the checks that hold if it is right as written; where a release may have moved it, the `substance`, checks
that hold if it is still right but for that; and the `correct` form, which is checked too. A check is one fact; its
`kind` says which. Objects are written `module:Name.part`.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from study.design.card import read_card
from study.errors import InputError

THIS_MACHINE = "this machine"
CPU = "cpu"
"""The card of a claim that speaks of vLLM's CPU backend."""
CHOSEN = "chosen"
"""In place of what an attention backend supports: that of the backend that vLLM chooses for the card."""
QWEN3 = "notebooks/parameters/models/qwen3-8b.yaml"
Part: TypeAlias = Literal["check", "substance", "correct"]
Text = Annotated[str, Field(min_length=1)]
Object = Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")]
"""`module:Name.part`."""


def _name_card(card: str | None) -> str | None:
    """Return a card as it is written everywhere; pydantic makes a line of its error."""
    try:
        return card if card in (None, CPU) else str(read_card(str(card)))
    except InputError as error:
        raise ValueError(str(error)) from None


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FlagExists(_Frozen):
    """vLLM's server takes this command line: its argument parser does, whatever becomes of it then."""

    kind: Literal["flag_exists"]
    flags: tuple[Text, ...] = Field(min_length=1)


class Configured(_Frozen):
    """A configuration that vLLM is asked to make: by the server's flags, or by the arguments of `LLM(...)`."""

    flags: tuple[Text, ...] = ()
    llm: dict[str, Any] | None = None
    environment: dict[str, str] = {}

    @model_validator(mode="after")
    def _one_way(self) -> "Configured":
        if self.flags and self.llm is not None:
            raise ValueError("give flags or llm, not both")
        return self


class Resolves(Configured):
    """The configuration resolves to these values (dotted path to value; an enumeration's member by its name)."""

    kind: Literal["resolves"]
    expect: dict[str, Any] = Field(min_length=1)
    attention: str | None = None
    """What a worker would know: its attention backend's AttentionCGSupport, such as UNIFORM_BATCH, or `chosen`. The
    CUDA graph mode is then what vLLM's own rule for workers makes of it. Null: as configured, before a worker runs."""


class DefaultIs(Configured):
    """A field has this value where nobody asked for one; `flags` name only what is served, such as a pooling model."""

    kind: Literal["default_is"]
    field: Text
    value: Any


class LogLine(Configured):
    """Making the configuration logs a line that holds this text."""

    kind: Literal["log_line"]
    has: Text


class _Called(Configured):
    call: Literal["server", "LLM", "EngineArgs", "VllmConfig", "CompilationConfig"] = "server"
    """What is called: the server's command line with `flags`, or one of vLLM's classes with `arguments`."""
    arguments: dict[str, Any] = {}

    @model_validator(mode="after")
    def _what_it_takes(self) -> "_Called":
        if self.llm is not None:
            raise ValueError("give call: LLM and arguments, not llm")
        if self.arguments if self.call == "server" else self.flags:
            raise ValueError("give flags to the server, and arguments to what else is called")
        return self


class Accepts(_Called):
    """vLLM takes it and makes a configuration of it."""

    kind: Literal["accepts"]


class Refuses(_Called):
    """vLLM refuses it, with a reason that holds `says`."""

    kind: Literal["refuses"]
    says: str = ""


class EnumHas(_Frozen):
    """An enumeration has exactly these members, with these values."""

    kind: Literal["enum_has"]
    enum: Object
    members: dict[str, Any] = Field(min_length=1)


class Imports(_Frozen):
    """These names can be imported from a module."""

    kind: Literal["imports"]
    module: Text
    names: tuple[Text, ...] = Field(min_length=1)


class AttributeHas(_Frozen):
    """An attribute is there; where `has` is given, it holds these; where `value` is given, it equals that."""

    kind: Literal["attribute_has"]
    object: Object
    has: tuple[Any, ...] = ()
    value: Any = None


class DefinedAt(_Frozen):
    """The source of an object is there; where `lines` are given, it covers exactly these (first, last)."""

    kind: Literal["defined_at"]
    object: Object
    lines: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]] | None = None


class Source(_Frozen):
    """The source of a module (`module`) or object (`module:Name`) holds these texts, and lacks those (spaces aside)."""

    kind: Literal["source"]
    of: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*(:[A-Za-z_][\w.]*)?$")]
    has: tuple[Text, ...] = ()
    lacks: tuple[Text, ...] = ()

    @model_validator(mode="after")
    def _asks_something(self) -> "Source":
        if not self.has and not self.lacks:
            raise ValueError("give has, lacks or both")
        return self


class UsedIn(_Frozen):
    """A module's code refers to a name."""

    kind: Literal["used_in"]
    name: Text
    module: Text


class CannotTell(_Frozen):
    """Nothing here can tell, and why: what only a worker on a GPU shows."""

    kind: Literal["cannot_tell"]
    why: Text


Check: TypeAlias = Annotated[
    FlagExists
    | Resolves
    | DefaultIs
    | LogLine
    | Accepts
    | Refuses
    | EnumHas
    | Imports
    | AttributeHas
    | DefinedAt
    | Source
    | UsedIn
    | CannotTell,
    Field(discriminator="kind"),
]
KINDS: Mapping[str, type[BaseModel]] = {
    get_args(kind.model_fields["kind"].annotation)[0]: kind for kind in get_args(get_args(Check)[0])
}
Checks = tuple[Check, ...]


class Correct(_Frozen):
    """The right form of a claim; `check` holds if it is right."""

    says: Text
    check: Checks = ()


class Claim(_Frozen):
    """One claim of a text, in words of our own."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,59}$")]
    says: Text
    where: Text
    """Where it stands in the text."""
    check: Checks = Field(min_length=1)
    """They all hold if the claim is right as written."""
    substance: Checks = ()
    """They all hold if the claim is right but for what a release may move: a line, a file, the cards it holds for."""
    card: str | None = None
    """The card that it speaks of, as `--as-gpu` takes it, or `cpu`; null: none."""
    correct: Correct | None = None

    @field_validator("card")
    @classmethod
    def _is_a_card(cls, card: str | None) -> str | None:
        return _name_card(card)

    def checks(self) -> Iterator[tuple[Part, int, "Check"]]:
        """Return every check with the part of the claim that it belongs to and its place there."""
        parts: tuple[tuple[Part, Checks], ...] = (
            ("check", self.check),
            ("substance", self.substance),
            ("correct", self.correct.check if self.correct else ()),
        )
        for part, checks in parts:
            yield from ((part, place, check) for place, check in enumerate(checks))


class ClaimsFile(_Frozen):
    """What one text claims."""

    title: Text
    date: Annotated[str, Field(pattern=r"^\d{4}(-\d{2}){0,2}$")]
    vllm_version: str | None = None
    """The version that the text speaks of; null: it does not say."""
    card: str | None = None
    """The card of claims that name none and depend on one."""
    model: str = QWEN3
    """What is configured: a hub name, a folder or a shape file."""
    claims: tuple[Claim, ...] = Field(min_length=1)

    @field_validator("card")
    @classmethod
    def _is_a_card(cls, card: str | None) -> str | None:
        return _name_card(card)

    @model_validator(mode="after")
    def _once_each(self) -> "ClaimsFile":
        ids = [claim.id for claim in self.claims]
        for name in ids:
            if ids.count(name) > 1:
                raise ValueError(f"claim '{name}' stands twice; give each its own id")
        return self


class Answer(_Frozen):
    """What the installed vLLM answered to one check.

    Attributes:
        claim: its claim's id.
        part: of the claim.
        place: of the check in that part.
        holds: null where nothing here can tell.
        said: the evidence, or why nothing can tell.

    """

    claim: str
    part: Part
    place: int
    holds: bool | None
    said: str


class VllmAnswers(_Frozen):
    """What the installed vLLM answered to the checks of a file.

    Attributes:
        vllm_version: as the package has it.
        platforms: card (or `this machine`) to the class of vLLM's platform that answered.
        answers: one a check.

    """

    vllm_version: str
    platforms: Mapping[str, str] = {}
    answers: tuple[Answer, ...]
