"""Word what a cloud's sign-in lacks: its package, or the credentials that the package looks for."""

import importlib.util
import os
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from ikigai.core.errors import IkigaiError
from ikigai.core.request.reply import FailureKind, StreamFailed
from ikigai.core.vendors import CLOUDS, CloudInfo
from ikigai.system.install_command import extra_command

CREDENTIAL_ERRORS = {
    "botocore.exceptions": "bedrock",
    "google.auth.exceptions": "vertex",
    "azure.core.exceptions": "azure",
    "azure.identity": "azure",
}
"""Beginnings of the modules whose exceptions are errors of a cloud's credentials → the cloud."""
UNREACHABLE_ERRORS = ("TransportError", "EndpointConnectionError", "ConnectTimeoutError", "ServiceRequestError")
"""Names of those exceptions that say that the server of the credentials cannot be reached."""


def require_package(cloud: CloudInfo) -> None:
    """Raise IkigaiError if the package that finds the credentials of this cloud is not installed."""
    try:
        found = importlib.util.find_spec(cloud.package) is not None
    except ModuleNotFoundError:
        found = False
    if not found:
        raise IkigaiError(
            f"{cloud.title} needs {cloud.package}, which is not installed.", f"Run: {extra_command(cloud.extra)}"
        )


def aws_session(region: str, with_credentials: bool) -> Any:
    """Return boto3's session, whose profile and region come from the environment and `aws configure`.

    Raise IkigaiError if it has no region, or with `with_credentials` no credentials.
    """
    require_package(CLOUDS["bedrock"])
    session = import_module("boto3").Session(region_name=region or None)
    if not session.region_name:
        raise IkigaiError(
            "There is no AWS region for Amazon Bedrock.",
            "Set AWS_REGION, or region under [providers.bedrock], or run: aws configure",
        )
    if with_credentials and session.get_credentials() is None:
        raise missing_credentials(CLOUDS["bedrock"], "none were found")
    return session


def google_region() -> str:
    """Return the region of Vertex AI that the environment names, by the variables of both SDKs; else "global"."""
    return _first_set("GOOGLE_CLOUD_LOCATION", "CLOUD_ML_REGION") or "global"


def google_project() -> str:
    """Return the project that the environment names, by the variables of both SDKs; else ""."""
    return _first_set("GOOGLE_CLOUD_PROJECT", "ANTHROPIC_VERTEX_PROJECT_ID")


def missing_google_project(provider: str) -> IkigaiError:
    return IkigaiError(
        "There is no Google Cloud project for Vertex AI.",
        f"Set GOOGLE_CLOUD_PROJECT, or project under [providers.{provider}].",
    )


def _first_set(*variables: str) -> str:
    return next((value for name in variables if (value := os.environ.get(name, "").strip())), "")


def missing_credentials(cloud: CloudInfo, why: str) -> IkigaiError:
    key = f", or set {cloud.key_variables[0]}" if cloud.key_variables else ""
    return IkigaiError(f"{cloud.title} has no credentials: {why}.", f"Run: {cloud.sign_in}{key}")


def credential_failure(error: BaseException) -> StreamFailed | None:
    """Return the failure of an exception of a cloud's credentials; None for other exceptions."""
    for one in _causes(error):
        place = type(one).__module__
        cloud = next((name for start, name in CREDENTIAL_ERRORS.items() if place.startswith(start)), "")
        if cloud:
            why = (str(one).strip().splitlines() or [type(one).__name__])[0].rstrip(". :")
            missing = missing_credentials(CLOUDS[cloud], why)
            is_unreachable = type(one).__name__ in UNREACHABLE_ERRORS
            kind = FailureKind.UNREACHABLE if is_unreachable else FailureKind.AUTH
            return StreamFailed(kind, missing.what, missing.remedy)
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
