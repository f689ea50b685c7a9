//! Ids and times in a compact form that is fast to compare.

use std::hash::Hasher;
use std::num::{NonZeroU64, NonZeroU128};
use std::time::SystemTime;

use jiff::Timestamp;
use rustc_hash::FxHasher;
use serde::{Deserialize, Serialize};

/// The identity of an entry, a message or a tool call: a UUID as its number, any other text as a 128-bit
/// hash. The text itself is read from the log when it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "[u8; 16]", try_from = "[u8; 16]")]
pub struct Uid(NonZeroU128);

impl From<Uid> for [u8; 16] {
    fn from(uid: Uid) -> Self {
        uid.to_bytes()
    }
}

impl TryFrom<[u8; 16]> for Uid {
    type Error = std::num::TryFromIntError;

    fn try_from(bytes: [u8; 16]) -> Result<Self, Self::Error> {
        NonZeroU128::try_from(u128::from_le_bytes(bytes)).map(Self)
    }
}

impl Uid {
    /// Creates the identity of an id as written in the log.
    pub fn new(text: &[u8]) -> Self {
        parse_uuid(text).unwrap_or_else(|| hash_text(text))
    }

    /// Parses a UUID in canonical form, from which it can be written back; `None` for any other text.
    pub(crate) fn from_canonical_uuid(text: &[u8]) -> Option<Self> {
        parse_uuid(text)
    }

    /// Returns the first 24 characters of a UUID, as a number.
    pub(crate) fn prefix(self) -> u128 {
        self.0.get() >> 48
    }

    /// Formats it as a UUID. The result is not the original text if that was not a UUID.
    pub fn to_uuid_string(self) -> String {
        let hex = format!("{:032x}", self.0.get());
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    /// Returns the number as bytes.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.get().to_le_bytes()
    }

    /// Returns a hash for tables, which also separates UUIDs that differ in a few digits only.
    pub(crate) fn table_hash(self) -> u64 {
        let mut hasher = FxHasher::default();
        hasher.write_u128(self.0.get());
        hasher.finish()
    }
}

/// Parses a UUID in canonical form with lower-case digits. The nil UUID is treated as other text,
/// because an id is not 0.
fn parse_uuid(text: &[u8]) -> Option<Uid> {
    let text: &[u8; 36] = text.try_into().ok()?;
    if [8, 13, 18, 23].iter().any(|&at| text[at] != b'-') {
        return None;
    }
    let digits = |at: usize| -> [u8; 4] { [text[at], text[at + 1], text[at + 2], text[at + 3]] };
    let eight = |first: [u8; 4], second: [u8; 4]| -> Option<u128> {
        let both = u64::from(u32::from_be_bytes(first)) << 32 | u64::from(u32::from_be_bytes(second));
        parse_eight_hex_digits(both).map(u128::from)
    };
    let a = eight(digits(0), digits(4))?;
    let b = eight(digits(9), digits(14))?;
    let c = eight(digits(19), digits(24))?;
    let d = eight(digits(28), digits(32))?;
    NonZeroU128::new(a << 96 | b << 64 | c << 32 | d).map(Uid)
}

/// Parses eight lower-case hexadecimal digits at once, one per byte.
fn parse_eight_hex_digits(text: u64) -> Option<u32> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // Letters have this bit set, digits do not.
    let letters = text >> 6 & ONES;
    let low = text & (ONES * 0x0f);
    let values = low + letters * 9;
    // Encoded again they must be the same; and no digit is above 9, no letter above `f` or below `a`.
    let encoded = values + ONES * 0x30 + letters * 0x27;
    let above_nine = (low + ONES * 6) >> 4 & ONES & !letters;
    let above_f = values >> 4 & ONES;
    let no_letter = (letters * 0x0f) & !(low + letters * 0x0f) >> 4 & letters;
    if encoded != text || above_nine | above_f | no_letter != 0 {
        return None;
    }
    let pairs = (values | values >> 4) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs | pairs >> 8) & 0x0000_ffff_0000_ffff;
    u32::try_from((fours | fours >> 16) & 0xffff_ffff).ok()
}

fn hash_text(text: &[u8]) -> Uid {
    let half = |seed: u64| {
        let mut hasher = FxHasher::default();
        hasher.write_u64(seed);
        hasher.write(text);
        hasher.write_usize(text.len());
        u128::from(hasher.finish())
    };
    let hash = (half(0x9e37_79b9) << 64) | half(0x85eb_ca6b);
    Uid(NonZeroU128::new(hash).unwrap_or(NonZeroU128::MIN))
}

/// Hashes bytes, to compare content.
pub(crate) fn fingerprint(parts: &[&[u8]]) -> u64 {
    let mut hasher = FxHasher::default();
    for part in parts {
        hasher.write(part);
        hasher.write_usize(part.len());
    }
    hasher.finish()
}

/// A point in time, in milliseconds since 1970. They are stored with the sign bit inverted, which keeps their order
/// and leaves 0 for an `Option`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "i64", from = "i64")]
pub struct Time(NonZeroU64);

impl From<Time> for i64 {
    fn from(time: Time) -> Self {
        time.millis()
    }
}

impl From<i64> for Time {
    fn from(millis: i64) -> Self {
        Self::from_millis(millis)
    }
}

const SIGN: u64 = 1 << 63;

impl Time {
    /// Converts the time of a file; `None` before 1970.
    pub fn from_system(time: SystemTime) -> Option<Self> {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        i64::try_from(since.as_millis()).ok().map(Self::from_millis)
    }

    /// Creates a time from milliseconds since 1970.
    pub fn from_millis(millis: i64) -> Self {
        Self(NonZeroU64::new(millis.cast_unsigned() ^ SIGN).unwrap_or(NonZeroU64::MIN))
    }

    /// Parses an ISO 8601 time. Clients write `2025-01-31T12:34:56.789Z`; other forms are accepted too.
    pub fn parse(text: &[u8]) -> Option<Self> {
        parse_client_format(text).or_else(|| parse_any_format(text))
    }

    /// Returns the milliseconds since 1970.
    pub fn millis(self) -> i64 {
        (self.0.get() ^ SIGN).cast_signed()
    }

    /// Returns the time as a timestamp, if the calendar can represent it.
    pub fn timestamp(self) -> Option<Timestamp> {
        Timestamp::from_millisecond(self.millis()).ok()
    }

    /// Returns the time as clients write it.
    pub fn to_iso(self) -> Option<String> {
        self.timestamp().map(|t| format!("{t:.3}"))
    }
}

impl std::fmt::Debug for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Time({})", self.millis())
    }
}

fn parse_any_format(text: &[u8]) -> Option<Time> {
    let text = std::str::from_utf8(text).ok()?;
    let timestamp = text.parse::<Timestamp>().or_else(|_| {
        // A date alone means midnight UTC, as in JavaScript.
        let date: jiff::civil::Date = text.parse()?;
        Ok::<_, jiff::Error>(date.to_zoned(jiff::tz::TimeZone::UTC)?.timestamp())
    });
    Some(Time::from_millis(timestamp.ok()?.as_millisecond()))
}

fn parse_client_format(text: &[u8]) -> Option<Time> {
    let text: &[u8; 24] = text.try_into().ok()?;
    let fixed = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'.'), (23, b'Z')];
    if fixed.iter().any(|&(at, c)| text[at] != c) {
        return None;
    }
    let number = |from: usize, len: usize| {
        text[from..from + len]
            .iter()
            .try_fold(0i64, |n, &c| c.is_ascii_digit().then(|| n * 10 + i64::from(c - b'0')))
    };
    let (year, month, day) = (number(0, 4)?, number(5, 2)?, number(8, 2)?);
    let (hour, minute, second) = (number(11, 2)?, number(14, 2)?, number(17, 2)?);
    if !(1..=12).contains(&month) || !(1..=28).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        // The last days of a month are left to the calendar of `jiff`.
        return None;
    }
    // Days since 1970, counting years from March so that the leap day is the last of its year.
    let shifted = year - i64::from(month <= 2);
    let era = shifted.div_euclid(400);
    let of_era = shifted.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    Some(Time::from_millis(seconds * 1000 + number(20, 3)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn uid_is_the_uuid_or_a_hash_of_other_text() {
        let uuid = Uid::new(b"00000000-0000-4000-8000-00000000000a");
        assert_eq!(uuid.0.get(), 0x0000_0000_0000_4000_8000_0000_0000_000a);
        assert_ne!(Uid::new(b"a"), Uid::new(b"b"));
        assert_ne!(Uid::new(b"a"), Uid::new(b"a\0"));
        assert_ne!(Uid::new(b"00000000-0000-0000-0000-000000000000"), Uid::new(b""));
    }

    #[test]
    fn unusual_times_are_parsed_or_none() {
        assert_eq!(Time::parse(b"1970-01-01T00:00:00.001Z"), Some(Time::from_millis(1)));
        assert_eq!(Time::parse(b"1970-01-01T01:00:00+01:00"), Some(Time::from_millis(0)));
        assert_eq!(
            Time::parse(b"2024-02-29T00:00:00.000Z").and_then(Time::to_iso).as_deref(),
            Some("2024-02-29T00:00:00.000Z")
        );
        assert_eq!(Time::parse(b"1970-01-02"), Some(Time::from_millis(86_400_000)));
        for bad in ["", "yesterday", "2025-13-01T00:00:00.000Z", "2023-02-29T00:00:00.000Z"] {
            assert_eq!(Time::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn times_are_ordered_and_none_comes_first() {
        let times = [i64::MIN, -1, 0, 1, i64::MAX].map(|millis| Some(Time::from_millis(millis)));
        assert!(times.is_sorted() && None < times[0]);
        assert_eq!((size_of::<Option<Time>>(), size_of::<Option<Uid>>()), (8, 16));
    }

    #[test]
    fn only_lower_case_hex_digits_are_parsed() {
        for byte in 0..=255u8 {
            let digit = char::from(byte).to_digit(16).filter(|_| !byte.is_ascii_uppercase());
            for place in 0..8 {
                let mut text = *b"00000000";
                text[place] = byte;
                let expected = digit.map(|digit| digit << (28 - 4 * place));
                assert_eq!(parse_eight_hex_digits(u64::from_be_bytes(text)), expected, "{byte} at {place}");
            }
        }
        assert_eq!(parse_eight_hex_digits(u64::from_be_bytes(*b"0123abcf")), Some(0x0123_abcf));
    }

    proptest! {
        #[test]
        fn fast_time_parser_agrees_with_jiff(millis in -2_000_000_000_000i64..4_000_000_000_000) {
            let time = Time::from_millis(millis);
            prop_assert_eq!(time.millis(), millis);
            let text = time.to_iso().expect("in range");
            prop_assert_eq!(parse_any_format(text.as_bytes()), Some(time));
            if let Some(quick) = parse_client_format(text.as_bytes()) {
                prop_assert_eq!(quick, time);
            }
        }
    }
}
