"""Log in to MCP servers without a user: by a client secret, or by a token signed with a private key."""

from __future__ import annotations

from pathlib import Path

import httpx2
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from mcp.client.auth import TokenStorage
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)

from ikigai.tools.mcp.host_messages import ServerLaunch

_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
"""The algorithms of elliptic curves."""


class UnusableKey(Exception):
    """The private key of a client cannot be used."""


def client_credentials(launch: ServerLaunch, storage: TokenStorage) -> httpx2.Auth:
    """Return the authentication of a launch by the grant client_credentials. Raise UnusableKey."""
    if not launch.client_key:
        return ClientCredentialsOAuthProvider(
            launch.url,
            storage,
            launch.client_id,
            launch.client_secret,
            scope=launch.scopes or None,
            issuer=launch.issuer or None,
        )
    try:
        key = Path(launch.client_key).read_bytes()
        signed = SignedJWTParameters(
            issuer=launch.client_id,
            subject=launch.client_id,
            signing_key=key.decode(),
            signing_algorithm=_algorithm(key),
        )
    except OSError as error:
        raise UnusableKey(f"{launch.client_key} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError):  # TypeError: a passphrase is missing
        raise UnusableKey(f"{launch.client_key} is no private key in PEM without a passphrase") from None
    return PrivateKeyJWTOAuthProvider(
        launch.url,
        storage,
        launch.client_id,
        signed.create_assertion_provider(),
        scope=launch.scopes or None,
        issuer=launch.issuer or None,
    )


def _algorithm(pem: bytes) -> str:
    """Return the name of the algorithm by which a key signs tokens. Raise ValueError for a key of another kind."""
    key = load_pem_private_key(pem, None)
    if isinstance(key, rsa.RSAPrivateKey):
        return "RS256"
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return "EdDSA"
    if isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.name in _CURVES:
        return _CURVES[key.curve.name]
    raise ValueError(type(key).__name__)
