"""Check what a run with this configuration would meet: settings that stop it, own tools, certificates."""

from __future__ import annotations

from ikigai.app.run.dry_run import find_problems
from ikigai.cli.doctor.check import BAD, OK, WARN, Finding
from ikigai.config import Config
from ikigai.providers.http.network import CERTIFICATES_VARIABLE, unreadable_certificates
from ikigai.system.paths import current_directory


async def check_start(config: Config) -> list[Finding]:
    findings: list[Finding] = []
    path, why = unreadable_certificates()
    if why:
        text = f"{path} of {CERTIFICATES_VARIABLE} cannot be read: {why}; no provider can be reached"
        findings.append(Finding("certificates", BAD, text, f"Correct {CERTIFICATES_VARIABLE}, or unset it."))
    problems = await find_problems(config)
    for about in dict.fromkeys(problem.about for problem in problems):
        same = [problem for problem in problems if problem.about == about]
        state = BAD if any(problem.stops for problem in same) else WARN
        remedies = dict.fromkeys(problem.remedy for problem in same if problem.remedy)
        remedy = " ".join(remedies) or REMEDIES.get(about, "Correct it.")
        findings.append(Finding(about, state, " ".join(problem.message for problem in same), remedy))
    if not any(finding.state == BAD for finding in findings):
        findings.append(Finding("start", OK, f"nothing stops a run in {current_directory()}"))
    return findings


REMEDIES = {
    "own tools": "Correct these files, or take them out of the folder; the other tools work.",
    "refused tools": "Tell their makers, or choose a model of another vendor; the other tools work.",
}
"""Remedies of problems that name none."""
