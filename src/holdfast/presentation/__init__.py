"""What people see and read: HTML, pictures and words, made here of the plain values that the other rooms give.

report     one page on what was promised, to whom, and how sure it is
letters    what one person is told, in plain language
notebook   how results show themselves in a notebook
pictures   how they are drawn
"""

from holdfast.presentation import _notebook as notebook
from holdfast.presentation import pictures

__all__ = ["notebook", "pictures"]
