"""Letters: what one person is told, in plain language, from templates that can be replaced and translated.

contents   Contents            what a letter says, as plain values: the variables of the templates
compose    compose             from a row of a `Recourse` to its contents; what cannot be stood behind is refused
language   Language            numbers and dates, exact where it matters
templates  Templates           ours and the caller's, sandboxed; `write_templates` copies ours out
letter     write_letter        one letter, as text and HTML
files      write_letters       a folder of them, with a manifest
"""

from holdfast.letters.contents import Contents
from holdfast.letters.files import write_letters
from holdfast.letters.letter import Letter, write_letter
from holdfast.letters.templates import write_templates

__all__ = ["Contents", "Letter", "write_letter", "write_letters", "write_templates"]
