"""Refuse to write a redaction marker that the file lacks: it would overwrite the secret behind it."""

from ikigai.core.secrets.redaction import find_markers


def check_markers(text: str, before: str, path: str) -> None:
    """Raise ValueError, in words for the model, if `text` has a marker that the file's text `before` does not have."""
    for marker in sorted(find_markers(text)):
        if text.count(marker) > before.count(marker):
            raise ValueError(
                f"{marker} replaces a secret that you were not shown; {path} does not contain this marker. "
                "Writing it would overwrite the secret. Edit the text around it, or ask the user to make this change."
            )
