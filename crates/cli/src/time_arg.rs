//! Times as command line arguments.

use jiff::civil::Date;
use jiff::{Span, Timestamp, Zoned};
use rethread::Time;

/// Parses `3d`, `2 weeks`, `last month`, `yesterday`, `2026-01-31`, `2026-01` or a full timestamp.
pub(crate) fn parse(text: &str, now: &Zoned) -> Result<Time, String> {
    let text = text.trim();
    let time = |zoned: Zoned| Time::from_millis(zoned.timestamp().as_millisecond());
    let midnight = |date: Date| date.to_zoned(now.time_zone().clone()).map(time).map_err(|e| e.to_string());
    match text {
        "now" => return Ok(time(now.clone())),
        "today" => return midnight(now.date()),
        "yesterday" => return midnight(now.date().yesterday().map_err(|e| e.to_string())?),
        _ => {}
    }
    if let Ok(timestamp) = text.parse::<Timestamp>() {
        return Ok(Time::from_millis(timestamp.as_millisecond()));
    }
    if let Ok(date) = text.parse::<Date>() {
        return midnight(date);
    }
    if let Ok(first) = format!("{text}-01").parse::<Date>() {
        return midnight(first);
    }
    let text = if let Some(unit) = text.strip_prefix("last ") { &format!("1 {unit}") } else { text };
    let digits = text.chars().take_while(char::is_ascii_digit).count();
    let unit = text[digits..].trim().trim_end_matches("ago").trim();
    let bad = || format!("invalid time `{text}`; try `3d`, `2 weeks`, `yesterday` or `2026-01-31`");
    let n: i64 = text[..digits].parse().map_err(|_| bad())?;
    let span = match unit {
        "m" => return Err(format!("`{text}` is ambiguous; write `{n}min` or `{n} months`")),
        "min" | "mins" | "minute" | "minutes" => Span::new().try_minutes(n),
        "h" | "hour" | "hours" => Span::new().try_hours(n),
        "d" | "day" | "days" => Span::new().try_days(n),
        "w" | "week" | "weeks" => Span::new().try_weeks(n),
        "mo" | "month" | "months" => Span::new().try_months(n),
        "y" | "year" | "years" => Span::new().try_years(n),
        _ => return Err(bad()),
    };
    now.checked_sub(span.map_err(|_| bad())?).map(time).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_and_absolute_times_are_parsed() {
        let now: Zoned = "2026-03-10T12:00:00[UTC]".parse().expect("a time");
        let parsed = |text: &str| parse(text, &now).map(|time| time.to_iso().unwrap_or_default());
        let ok = |text: &str| Ok::<_, String>(text.to_owned());
        assert_eq!(parsed("3d"), ok("2026-03-07T12:00:00.000Z"));
        assert_eq!(parsed("2 weeks ago"), ok("2026-02-24T12:00:00.000Z"));
        assert_eq!(parsed("yesterday"), ok("2026-03-09T00:00:00.000Z"));
        assert_eq!(parsed("2026-01-31"), ok("2026-01-31T00:00:00.000Z"));
        assert_eq!(parsed("2026-01"), ok("2026-01-01T00:00:00.000Z"));
        assert_eq!(parsed("last month"), ok("2026-02-10T12:00:00.000Z"));
        assert_eq!(parsed("5min"), ok("2026-03-10T11:55:00.000Z"));
        assert_eq!(parsed("1m"), Err("`1m` is ambiguous; write `1min` or `1 months`".to_owned()));
        assert_eq!(parsed("2026-01-31T08:00:00Z"), ok("2026-01-31T08:00:00.000Z"));
        for bad in ["", "soon", "3 fortnights", "99999999999d", "d"] {
            assert!(parsed(bad).is_err(), "{bad}");
        }
    }
}
