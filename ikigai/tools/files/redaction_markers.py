"""Refuses to write a redaction marker where a file holds none: it would overwrite the secret that it stands for."""

from ikigai.core.redaction import markers


def check_markers(text: str, before: str, path: str) -> None:
    """Raise ValueError, in words for the model, if `text` has a marker that the file's text `before` does not have."""
    for marker in sorted(markers(text)):
        if text.count(marker) > before.count(marker):
            raise ValueError(
                f"{marker} stands for a secret that you were not shown; {path} does not hold these words. Writing them "
                "would overwrite the secret. Edit the text around it, or ask the user to make this change."
            )
