"""Write small PDFs for tests."""


def make_pdf(*pages: str, content: bytes = b"", filters: str = "") -> bytes:
    """Return a PDF with these words, one page each; `content` in these `filters` takes the place of all of them."""
    objects = [b"<</Type/Catalog/Pages 2 0 R>>"]
    kids = " ".join(f"{4 + 2 * index} 0 R" for index in range(len(pages)))
    objects.append(f"<</Type/Pages/Kids[{kids}]/Count {len(pages)}>>".encode())
    objects.append(b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>")
    for index, words in enumerate(pages):
        stream = content or (f"BT /F1 12 Tf 72 720 Td ({words}) Tj ET".encode() if words else b"")
        fonts, place = "/Resources<</Font<</F1 3 0 R>>>>", f"/Contents {5 + 2 * index} 0 R"
        objects.append(f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]{fonts}{place}>>".encode())
        filtered = f"/Filter {filters}" if filters else ""
        objects.append(f"<</Length {len(stream)}{filtered}>>stream\n".encode() + stream + b"\nendstream")
    written, places = b"%PDF-1.7\n", list[int]()
    for number, each in enumerate(objects, 1):
        places.append(len(written))
        written += b"%d 0 obj%b\nendobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"xref\n0 %d\n0000000000 65535 f \n%btrailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF"
    return written + end % (len(objects) + 1, table, len(objects) + 1, len(written))
