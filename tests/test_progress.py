"""The progress bar: silent unless asked for or watched, and it moves."""

from holdfast.progress import progress_bar


def test_silent_by_default_where_nobody_looks(capsys):
    with progress_bar("work", 10**6, wanted=None, long=10) as advance:
        assert advance is None
    assert capsys.readouterr().err == ""


def test_shown_on_stderr_when_asked_for(capsys):
    with progress_bar("work", 3, wanted=True, long=10) as advance:
        for _ in range(3):
            advance(1)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "work" in captured.err
    assert "3/3" in captured.err
