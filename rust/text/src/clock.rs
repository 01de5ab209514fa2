//! Dates for templates, in UTC.

const DAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Formats a time as C's `strftime` does in English.
///
/// `seconds` counts from 1970-01-01 UTC. Directives `%Y %y %m %B %b %d %e %A %a %j %H %I %M %S %p
/// %Z %F %T %%` are supported, others stay unchanged.
pub(crate) fn format(seconds: i64, pattern: &str) -> String {
    let days = seconds.div_euclid(86_400);
    let of_day = seconds.rem_euclid(86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let weekday = DAYS[(days + 3).rem_euclid(7) as usize];
    let month_name = MONTHS[month as usize - 1];
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let written = match chars.next() {
            Some('Y') => year.to_string(),
            Some('y') => format!("{:02}", year.rem_euclid(100)),
            Some('m') => format!("{month:02}"),
            Some('B') => month_name.to_owned(),
            Some('b') => month_name[..3].to_owned(),
            Some('d') => format!("{day:02}"),
            Some('e') => format!("{day:2}"),
            Some('A') => weekday.to_owned(),
            Some('a') => weekday[..3].to_owned(),
            Some('j') => format!("{:03}", days - days_before(year) + 1),
            Some('H') => format!("{hour:02}"),
            Some('I') => format!("{:02}", (hour + 11) % 12 + 1),
            Some('M') => format!("{minute:02}"),
            Some('S') => format!("{second:02}"),
            Some('p') => if hour < 12 { "AM" } else { "PM" }.to_owned(),
            Some('Z') => "UTC".to_owned(),
            Some('F') => format!("{year}-{month:02}-{day:02}"),
            Some('T') => format!("{hour:02}:{minute:02}:{second:02}"),
            Some('%') | None => "%".to_owned(),
            Some(other) => format!("%{other}"),
        };
        out.push_str(&written);
    }
    out
}

/// Days from 1970-01-01 to the first day of `year`.
fn days_before(year: i64) -> i64 {
    let y = year - 1;
    365 * (year - 1970) + (y.div_euclid(4) - y.div_euclid(100) + y.div_euclid(400)) - 477
}

/// Year, month and day of the day `days` after 1970-01-01.
fn civil(days: i64) -> (i64, i64, i64) {
    let mut year = 1970 + days.div_euclid(366);
    while days_before(year + 1) <= days {
        year += 1;
    }
    let leap = i64::from(days_before(year + 1) - days_before(year) == 366);
    let mut day = days - days_before(year);
    let lengths = [31, 28 + leap, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    (year, month, day + 1)
}

#[cfg(test)]
mod tests {
    use super::format;

    #[test]
    fn known_moments_are_written_as_strftime_writes_them() {
        let pattern = "%Y-%m-%d %H:%M:%S %a %A %b %B %j %y %I %p %e";
        for (seconds, expected) in [
            (
                0,
                "1970-01-01 00:00:00 Thu Thursday Jan January 001 70 12 AM  1",
            ),
            (
                951_782_400,
                "2000-02-29 00:00:00 Tue Tuesday Feb February 060 00 12 AM 29",
            ),
            (
                1_735_689_599,
                "2024-12-31 23:59:59 Tue Tuesday Dec December 366 24 11 PM 31",
            ),
            (
                4_107_542_400,
                "2100-03-01 00:00:00 Mon Monday Mar March 060 00 12 AM  1",
            ),
            (
                -1,
                "1969-12-31 23:59:59 Wed Wednesday Dec December 365 69 11 PM 31",
            ),
        ] {
            assert_eq!(format(seconds, pattern), expected);
        }
        assert_eq!(
            format(0, "%F %T %Z 100%% %q %"),
            "1970-01-01 00:00:00 UTC 100% %q %"
        );
    }
}
