//! Days of the Gregorian calendar.

/// The seconds of a day.
pub const DAY: i64 = 86_400;

/// The days from 1970-01-01 to a date.
pub fn date(text: &str) -> Option<i64> {
    let mut parts = text.split('-');
    let (Some(year), Some(month), Some(day), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return None;
    };
    let number =
        |text: &str, digits: usize| match text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => text.parse::<i64>().ok(),
            false => None,
        };
    let (year, month, day) = (number(year, 4)?, number(month, 2)?, number(day, 2)?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let most = match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        1..=12 => 31,
        _ => return None,
    };
    (1..=most).contains(&day).then(|| days(year, month, day))
}

/// The days from 1970-01-01 to a date of the Gregorian calendar.
pub fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March here, so that the leap day comes last.
    let year = if month <= 2 { year - 1 } else { year };
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year.div_euclid(400) * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year, month and day of a day, counted from 1970-01-01.
pub fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}
