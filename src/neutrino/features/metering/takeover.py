"""Metering labels and their rules in Neutron's database."""

from neutrino.features.metering.tables import metering_label_rules, metering_labels
from neutrino.takeover.family import Chunk, Family, Owned, Shown, paired, pairs, unpaired_rows
from neutrino.takeover.inverse import Parts, Theirs

_LABEL = (*pairs("id"), *pairs("project_id", "name", "description", default=""), *pairs("shared", default=False))
_RULE = (
    *pairs("id", "metering_label_id", "direction", "remote_ip_prefix", "source_ip_prefix", "destination_ip_prefix"),
    *pairs("excluded", default=False),
)


def _compose(chunk: Chunk) -> None:
    for row in chunk.rows:
        chunk.add(metering_labels, paired(row, _LABEL))
    for rules in chunk.children("meteringlabelrules", "metering_label_id").values():
        for rule in rules:
            chunk.add(metering_label_rules, paired(rule, _RULE))


def _decompose(parts: Parts) -> None:
    unpaired_rows(parts, metering_labels, "meteringlabels", _LABEL)
    unpaired_rows(parts, metering_label_rules, "meteringlabelrules", _RULE)


FAMILIES = (
    Family(
        name="metering labels",
        source="meteringlabels",
        tables=(Owned(metering_labels), Owned(metering_label_rules, "metering_label_id")),
        shown=(
            Shown("metering/metering-labels", "metering_labels"),
            Shown("metering/metering-label-rules", "metering_label_rules"),
        ),
        compose=_compose,
        theirs=(Theirs("meteringlabels"), Theirs("meteringlabelrules", "metering_label_id")),
        decompose=_decompose,
        reads=("meteringlabelrules",),
    ),
)
