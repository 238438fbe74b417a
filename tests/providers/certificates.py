"""Servers' certificates that have signed themselves."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest


def signed_itself(folder: Path, *more: str) -> tuple[Path, ssl.SSLContext]:
    """A certificate for 127.0.0.1, and a server's context with it; `more` is for openssl. Skips where openssl is
    missing.
    """
    if not shutil.which("openssl"):
        pytest.skip("needs openssl to make a certificate")
    key, certificate = folder / "key.pem", folder / "cert.pem"
    curve = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=127.0.0.1"
    command = f"openssl req -x509 {curve} -keyout {key} -out {certificate}"
    subprocess.run([*command.split(), *more], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return certificate, context
