//! The calendar beside that of `jiff`: where both agree, and the texts that are read in another way here.

use jiff::Timestamp;
use jiff::civil::Date;

use super::{DAY, Moment, RANGE, SECOND, civil, date, days};

/// Numbers that are spread over a range; the same in each run.
struct Spread(u64);

impl Spread {
    fn next(&mut self, range: std::ops::RangeInclusive<i64>) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let width = u64::try_from(range.end() - range.start()).unwrap() + 1;
        range.start() + i64::try_from((self.0 >> 16) % width).unwrap()
    }
}

#[test]
fn days_and_points_in_time_are_those_of_jiff() {
    let mut spread = Spread(1);
    // The last day of the year 9999 is beyond the points in time of jiff.
    let range = *RANGE.start()..=RANGE.end() - 2 * DAY;
    for _ in 0..100_000 {
        let (at, nanos) = (spread.next(range.clone()), u32::try_from(spread.next(0..=SECOND - 1)).unwrap());
        let day = at.div_euclid(DAY);
        let (year, month, of_month) = civil(day);
        let theirs = Timestamp::from_second(day * DAY).unwrap().to_zoned(jiff::tz::TimeZone::UTC).date();
        let ours = Date::new(year.try_into().unwrap(), month.try_into().unwrap(), of_month.try_into().unwrap());
        assert_eq!((ours.unwrap(), days(year, month, of_month)), (theirs, day));
        assert_eq!(date(&theirs.to_string()), Some(day));
        let nanos = if at % 2 == 0 { 0 } else { nanos };
        let (ours, theirs) =
            (Moment { seconds: at, nanos }, Timestamp::new(at, i32::try_from(nanos).unwrap()).unwrap());
        assert_eq!(ours.to_string(), theirs.to_string());
        assert_eq!(Moment::parse(&theirs.to_string()), Some(ours));
    }
}

#[test]
fn texts_with_offsets_are_read_as_by_jiff() {
    let mut spread = Spread(2);
    for _ in 0..100_000 {
        let mut number = |most: i64| spread.next(0..=most);
        let day = format!("{:04}-{:02}-{:02}", 1 + number(9_997), number(13), number(32));
        let time = format!("{:02}:{:02}:{:02}", number(24), number(60), number(59));
        let zone = format!("{}{:02}:{:02}", if number(1) == 0 { '+' } else { '-' }, number(23), number(59));
        let text = format!("{day}T{time}{zone}");
        let theirs = text.parse::<Timestamp>().ok().map(|at| Moment { seconds: at.as_second(), nanos: 0 });
        assert_eq!(Moment::parse(&text), theirs, "{text}");
    }
}

#[test]
fn other_texts_are_read_as_by_go_and_not_as_by_jiff() {
    // That is why the calendar is not that of jiff.
    for (text, is_time, is_time_to_jiff) in [
        ("2030-01-01T00:00:60Z", false, true),
        ("2030-01-01 00:00:00Z", false, true),
        ("20300101T000000Z", false, true),
        ("2030-01-01T00Z", false, true),
        ("2030-01-01T00:00:00.1234567891Z", true, false),
        ("9999-12-31T23:59:59Z", true, false),
    ] {
        let (ours, theirs) = (Moment::parse(text), text.parse::<Timestamp>());
        assert_eq!((ours.is_some(), theirs.is_ok()), (is_time, is_time_to_jiff), "{text}: {ours:?} {theirs:?}");
    }
    // The years of Go have no end: templates print such dates.
    assert_eq!((civil(days(12_000, 2, 29)), Date::new(12_000, 2, 29).is_ok()), ((12_000, 2, 29), false));
}
