"""Writes the golden files anew."""

from tests.golden.models import MODELS, file, text

for name in MODELS:
    file(name).write_text(text(name), encoding="utf-8")
