"""Numbers as a reader takes them in: few characters, and a dash where there is none."""

from __future__ import annotations


def number(value: float | None, digits: int = 3, nan: str = "-") -> str:
    """A number in the fewest characters that keep `digits` digits; None is a dash.

    nan: how NaN is written: a dash where it means that nothing was measured, "nan" where it may be the measurement.

    >>> number(0.26), number(0.0000111), number(33.4567), number(0.0), number(None), number(float("nan"))
    ('0.26', '1.11e-05', '33.5', '0', '-', '-')
    """
    return "-" if value is None else nan if value != value else f"{value:.{digits}g}"


def percent(share: float | None) -> str:
    """A share of 1, with as many decimals as tell it from 0 and from all; None and NaN are a dash.

    >>> percent(0.0136), percent(0.0), percent(1.0), percent(0.9995), percent(None)
    ('1.4%', '0%', '100%', '99.95%', '-')
    """
    if share is None or share != share:
        return "-"
    if share in (0.0, 1.0):
        return f"{share:.0%}"
    text = f"{100 * share:.1f}"
    return f"{100 * share:.2f}%" if text in ("0.0", "100.0") else f"{text}%"


def share_style(share: float) -> str:
    """The colour of a share of what is lost: more than half, more than a tenth, less."""
    return "bold red" if share > 0.5 else "yellow" if share > 0.1 else ""


def short(value: float, signed: bool = True) -> str:
    """As few characters as the narrow cell of a matrix needs.  signed: it may be below 0; else it is from 0 to 1.

    >>> short(0.53, False), short(-3.04), short(1e-9), short(0.0)
    ('.53', '-3.0', '≈0', '0')
    """
    size = abs(value)
    if value == 0 or (not signed and size < 0.005):
        return "0"
    if not signed and size >= 0.995:
        return "1"
    if size < 0.005:
        return "≈0"
    return f"{value:.{0 if size >= 9.95 else 1 if size >= 0.995 else 2}f}".replace("0.", ".", 1)
