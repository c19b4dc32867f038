//! Ages in the format of kubectl's tables.

/// A unit and its letter.
type TimeUnit = (i64, char);
type AgeStep = (i64, TimeUnit, Option<TimeUnit>);

/// A duration in its two largest units, the smaller one only where significant: `90s`, `5m30s`, `45m`, `3h5m`, `30h`,
/// `3d4h`, `40d`, `2y40d`, `9y`. Clocks differ, so the next second counts as now; later times have no age.
pub(crate) fn age(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    /// Below each limit: the unit, and a smaller one for the remainder.
    const STEPS: [AgeStep; 9] = [
        (2 * MINUTE, (1, 's'), None),
        (10 * MINUTE, (MINUTE, 'm'), Some((1, 's'))),
        (3 * HOUR, (MINUTE, 'm'), None),
        (8 * HOUR, (HOUR, 'h'), Some((MINUTE, 'm'))),
        (2 * DAY, (HOUR, 'h'), None),
        (8 * DAY, (DAY, 'd'), Some((HOUR, 'h'))),
        (2 * YEAR, (DAY, 'd'), None),
        (8 * YEAR, (YEAR, 'y'), Some((DAY, 'd'))),
        (i64::MAX, (YEAR, 'y'), None),
    ];
    match seconds {
        ..-1 => return "<invalid>".to_owned(),
        -1..0 => return "0s".to_owned(),
        0.. => {}
    }
    let step = STEPS.into_iter().find(|(limit, ..)| seconds < *limit);
    let (_, (unit, letter), smaller) = step.unwrap_or(STEPS[STEPS.len() - 1]);
    let mut text = format!("{}{letter}", seconds / unit);
    if let Some((smaller, letter)) = smaller {
        let rest = seconds % unit / smaller;
        if rest > 0 {
            text.push_str(&format!("{rest}{letter}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::age;

    #[test]
    fn ages_have_the_largest_units() {
        const HOUR: i64 = 3600;
        const DAY: i64 = 24 * HOUR;
        for (seconds, want) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (599, "9m59s"),
            (600, "10m"),
            (10_799, "179m"),
            (3 * HOUR, "3h"),
            (8 * HOUR - 1, "7h59m"),
            (8 * HOUR, "8h"),
            (47 * HOUR, "47h"),
            (2 * DAY, "2d"),
            (3 * DAY + 4 * HOUR + 59, "3d4h"),
            (8 * DAY, "8d"),
            (729 * DAY, "729d"),
            (731 * DAY, "2y1d"),
            (3000 * DAY, "8y"),
            (i64::MAX, "292471208677y"),
        ] {
            assert_eq!(age(seconds), want, "{seconds}");
        }
    }
}
