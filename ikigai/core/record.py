"""The base of every record: frozen, slotted, cheap."""

import msgspec


class Record(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A value. Records hold only other values, so no cycle can form and the collector need not look (gc=False)."""
