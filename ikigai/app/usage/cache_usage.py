"""Carry out `ikigai usage --cache` and its part of /cost: the tokens that caches served, and why they missed."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from ikigai.app.json_records.record_fields import record_of, timestamp
from ikigai.app.json_records.usage_records import CacheFields, CacheMissFields, CacheRecord, MissCauseFields
from ikigai.core.text.sanitize import clean_line
from ikigai.core.views.cache_report import cause_lines, served_line

if TYPE_CHECKING:
    from datetime import date

    from ikigai.core.views.cache_report import CacheReport
    from ikigai.store.agents.agents import Agent

CSV_COLUMNS = ("cause", "requests", "missed")


def format_cache(report: CacheReport) -> str:
    """Return the report for people."""
    if not report.requests:
        return "No requests were found."
    lines = [served_line(report)]
    if not report.causes:
        return f"{lines[0]}\nNo request is known to have read less than it could have."
    lines += [
        "",
        f"{report.missed:,} tokens more could have been read:",
        *(f"  {line}" for line in cause_lines(report)),
    ]
    lines += ["", "The newest of these requests:"]
    for row in report.newest:
        at = datetime.fromtimestamp(row.at).strftime("%Y-%m-%d %H:%M")
        counts = f"{row.cached:,} of {row.input:,} read, {row.written:,} written, {row.missed:,} missed"
        reason = f", {clean_line(row.provider_reason)} by the provider" if row.provider_reason else ""
        lines.append(f"  {at}  {clean_line(row.agent)}  {clean_line(row.model)}: {counts} ({row.cause}{reason})")
    return "\n".join(lines)


def format_cost_lines(report: CacheReport) -> str:
    """Return the lines of /cost; "" where no provider told of a cache."""
    if not (report.cached or report.written):
        return ""
    return "\n".join((served_line(report), *(f"Missed {line}." for line in cause_lines(report))))


def format_cache_csv(report: CacheReport) -> str:
    """Return the causes as CSV with a header."""
    rows = [CSV_COLUMNS, *((each.cause, str(each.requests), str(each.missed)) for each in report.causes)]
    return "\n".join(",".join(row) for row in rows)


def cache_fields(report: CacheReport) -> CacheFields:
    """Return the sums and causes as a JSON object."""
    return record_of(CacheFields, report, causes=tuple(record_of(MissCauseFields, each) for each in report.causes))


def cache_record(report: CacheReport, since: date | None, agent: Agent | None) -> CacheRecord:
    """Return the whole report as a JSON object."""
    newest = tuple(
        record_of(CacheMissFields, row, at=timestamp(row.at), provider=row.provider_reason or None)
        for row in report.newest
    )
    return CacheRecord(
        since=since and since.isoformat(),
        agent=agent.name if agent else None,
        agent_id=agent.id if agent else None,
        total=cache_fields(report),
        newest=newest,
    )
