"""The words of the pages: each in every language, each used, none missing."""

import re
from pathlib import Path
from string import Formatter

import pytest

import tinygrad_attn
from tinygrad_attn.lab.words import LANGUAGES
from tinygrad_attn.pages.kit import catalogue, speaker
from tinygrad_attn.pages.play.answers import MASKS

PAGES = Path(tinygrad_attn.__file__).parent / "pages"


def blanks(text):
    return sorted(name for _, name, _, _ in Formatter().parse(text) if name)


@pytest.mark.parametrize("name", catalogue())
def test_every_text_is_there_in_every_language_with_the_same_blanks(name):
    texts = catalogue()[name]
    assert set(texts) == set(LANGUAGES) and all(text.strip() == text != "" for text in texts.values())
    assert len({tuple(blanks(text)) for text in texts.values()}) == 1


def test_every_name_is_used_and_every_name_used_is_there():
    sources = "".join(path.read_text(encoding="utf-8") for path in PAGES.rglob("*.py"))
    script = (PAGES / "report" / "page.js").read_text(encoding="utf-8")
    used = set(re.findall(r"""\bsay\(["']([^"'{}]+)["']""", sources))
    used |= {f"play.mask {mask}" for mask in MASKS} | {f"script.{word}" for word in re.findall(r"SAY\.(\w+)", script)}
    measured = {"score_std", "entropy", "jacobian", "row_gradient", "dead"}  # said by name, in a loop
    assert used - set(catalogue()) == set()
    assert set(catalogue()) - used - measured == set()


def test_what_is_missing_is_an_error():
    with pytest.raises(ValueError, match="language"):
        speaker("fr")
    with pytest.raises(KeyError):
        speaker("en")("no such name")
    with pytest.raises(KeyError):
        speaker("es")("play.right")  # without its target
