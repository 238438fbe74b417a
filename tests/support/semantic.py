"""Switch the word vectors of the extra `semantic` on and off."""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from unittest import mock

from ikigai.store.search import word_vectors


@contextmanager
def without() -> Generator[None]:
    """Recall as without the extra."""
    with mock.patch.object(word_vectors, "load_installed", lambda: None):
        yield


def modes() -> dict[str, Callable[[], AbstractContextManager[None]]]:
    """Return the ways to recall that this installation has, by name."""
    modes: dict[str, Callable[[], AbstractContextManager[None]]] = {"recall": without}
    return modes | ({"recall with semantic": nullcontext} if word_vectors.folder() else {})
