"""Time stamps of a server log, which carry no year.

vLLM writes `MM-DD HH:MM:SS` in local time at a resolution of one second; a second is cut off, not rounded. A stamp is
kept here as seconds since 1 January 00:00 of a leap year, so that 29 February has a place. Differences go through
`seconds_between`, which knows about New Year and about February in years that are not leap years.
"""

import datetime as dt

_DAYS_BEFORE_MONTH = (0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335)
_DAYS_IN_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
DAY_S = 86_400.0
STAMP_RESOLUTION_S = 1.0
_YEAR_S = 366 * DAY_S
_END_OF_28_FEBRUARY_S = (_DAYS_BEFORE_MONTH[1] + 28) * DAY_S
_MARCH_S = _DAYS_BEFORE_MONTH[2] * DAY_S
_QUARTER_HOUR_S = 900.0


def stamp_in_year(month: int, day: int, hour: int, minute: int, second: float) -> float | None:
    """Return seconds since 1 January 00:00 of a leap year, or None for a date or time that does not exist."""
    if not (1 <= month <= 12 and hour < 24 and minute < 60 and second < 61):
        return None
    if not 1 <= day <= _DAYS_IN_MONTH[month - 1]:
        return None
    return (_DAYS_BEFORE_MONTH[month - 1] + day - 1) * DAY_S + hour * 3600.0 + minute * 60.0 + second


def seconds_between(earlier: float, later: float) -> float:
    """Return the signed seconds from `earlier` to `later`, both from `stamp_in_year`.

    The shorter way round the year is taken. From before the end of 28 February to March, a distance of over a day
    loses 29 February: a start does not take a day, and in three years of four that date does not exist.
    """
    gap = (later - earlier + _YEAR_S / 2) % _YEAR_S - _YEAR_S / 2
    if earlier < _END_OF_28_FEBRUARY_S and later >= _MARCH_S and DAY_S <= gap < 3 * DAY_S:
        return gap - DAY_S
    if later < _END_OF_28_FEBRUARY_S and earlier >= _MARCH_S and -3 * DAY_S < gap <= -DAY_S:
        return gap + DAY_S
    return gap


def stamp_to_unix(stamp: float, near_unix_s: float, utc_offset_s: float) -> float:
    """Return the Unix time of a local `stamp`, in the year that puts it nearest to `near_unix_s`.

    Args:
        stamp: seconds in a leap year, from `stamp_in_year`.
        near_unix_s: a Unix time close to the stamp, in seconds.
        utc_offset_s: local time minus UTC, in seconds (3600 for UTC+1).

    """
    local_year = dt.datetime.fromtimestamp(near_unix_s + utc_offset_s, dt.UTC).year
    candidates = [_unix_in_year(stamp, year) - utc_offset_s for year in (local_year - 1, local_year, local_year + 1)]
    return min(candidates, key=lambda unix_s: abs(unix_s - near_unix_s))


def infer_utc_offset(stamp: float, near_unix_s: float) -> float:
    """Return the UTC offset, in whole quarter hours, that puts a local `stamp` nearest to `near_unix_s`."""
    distance = stamp_to_unix(stamp, near_unix_s, 0.0) - near_unix_s
    return round(distance / _QUARTER_HOUR_S) * _QUARTER_HOUR_S


def _unix_in_year(stamp: float, year: int) -> float:
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    shifted = stamp - DAY_S if not leap and stamp >= _END_OF_28_FEBRUARY_S else stamp
    return dt.datetime(year, 1, 1, tzinfo=dt.UTC).timestamp() + shifted
