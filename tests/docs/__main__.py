"""Write all generated files of the documentation: python -m tests.docs."""

from tests.docs.generated import GENERATED

for file, make in GENERATED.items():
    file.parent.mkdir(exist_ok=True)
    file.write_text(make(), encoding="utf-8")
