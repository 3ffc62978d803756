"""Letters to people, in plain language, from templates that can be replaced and translated.

contents   LetterContents      the content of a letter as plain values: the variables of the templates
compose    compose             from a row of a `Recourse` to its contents; unproven claims are refused
wording    Wording             columns, values and reasons in the words of a language
language   Language            its templates, sandboxed, and its numbers and dates, exact where it matters
letter     write_letter        one letter, as text and HTML
files      letters             a folder of them, with a manifest
"""

from holdfast.presentation.letters._files import letters
from holdfast.presentation.letters._language import write_templates
from holdfast.presentation.letters._letter import Letter, write_letter

__all__ = ["Letter", "letters", "write_letter", "write_templates"]
