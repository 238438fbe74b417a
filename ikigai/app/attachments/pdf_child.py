"""Read a PDF from standard input and write its pages and text as JSON, in a process that may be killed.

    python -P pdf_child.py MAX_PAGES MAX_CHARACTERS MAX_BYTES_OF_MEMORY MAX_SECONDS

A PDF can be made to take any time and memory. The answer is {"pages": N, "text": TEXT, "locked": BOOL} or
{"error": WORDS}. A locked file is encrypted, and opens without a password.
"""

import json
import resource
import sys
from io import BytesIO


def read_pdf(data: bytes, max_pages: int, max_characters: int) -> dict[str, object]:
    import pypdf
    from pypdf.errors import DependencyError

    try:
        reader = pypdf.PdfReader(BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            return {"error": "encrypted"}
        pages = len(reader.pages)
    except DependencyError:
        return {"error": "encrypted"}
    except Exception:
        return {"error": "broken"}
    texts: list[str] = []
    size = 0
    for index in range(min(pages, max_pages)):
        try:
            text = reader.pages[index].extract_text().strip()
        except Exception:  # a page that cannot be read leaves the others readable
            text = ""
        if text:
            texts.append(f"[page {index + 1}]\n{text}")
            size += len(text)
        if size > max_characters:
            break
    return {"pages": pages, "text": "\n\n".join(texts)[: 2 * max_characters], "locked": reader.is_encrypted}


def main() -> None:
    pages, characters, memory, seconds = map(int, sys.argv[1:])
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    sys.setrecursionlimit(3_000)
    try:
        answer = read_pdf(sys.stdin.buffer.read(), pages, characters)
    except (MemoryError, RecursionError):
        answer = {"error": "costly"}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
