"""Settings classes whose fields are configuration options: name, type, default, limits and help are declared once."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from oslo_config import cfg

T = TypeVar("T")
_KINDS: dict[Any, str] = {
    bool: "BoolOpt",
    int: "IntOpt",
    float: "FloatOpt",
    str: "StrOpt",
    tuple[str, ...]: "ListOpt",
    tuple[int, ...]: "ListOpt",
}


def option(default: Any, text: str, kind: str = "", **more: Any) -> Any:
    """A field that is an option with this help text. `kind`: its class in oslo.config, where the type does not imply it."""
    # Without repr: a secret must not get into a log with its settings.
    return dataclasses.field(
        default=default, repr=not more.get("secret"), metadata={"kind": kind, "help": text, **more}
    )


def options_of(settings: type) -> list["cfg.Opt"]:
    from oslo_config import cfg, types  # not above: the metadata proxy has settings classes, and no options

    made = []
    for field in dataclasses.fields(settings):
        if field.metadata:
            more = dict(field.metadata)
            kind = more.pop("kind") or _KINDS[field.type]
            if field.type == tuple[int, ...]:
                more["item_type"] = types.Integer(choices=more.pop("choices"))
            default = list(field.default) if isinstance(field.default, tuple) else field.default
            made.append(getattr(cfg, kind)(field.name, default=default, **more))
    return made


def read_settings(settings: type[T], conf: Mapping[str, Any], **derived: Any) -> T:
    """The settings with the configured values; `derived` are fields that are no options, or need a conversion."""
    names = [field.name for field in dataclasses.fields(settings) if field.metadata and field.name not in derived]  # type: ignore[arg-type]
    values = {name: tuple(conf[name]) if isinstance(conf[name], list) else conf[name] for name in names}
    return settings(**values, **derived)
