//! The groups of a usage report: days, sessions, models and so on.

use jiff::Zoned;
use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;

use super::Receipt;
use crate::id::Time;

/// The property by which usage is grouped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UsageGrouping {
    /// The day, in a time zone.
    #[default]
    Day,
    /// The week, which begins on Monday.
    Week,
    /// The month.
    Month,
    /// The session that a response is billed to.
    Session,
    /// The project of that session.
    Project,
    /// The model.
    Model,
    /// The tools that a response calls. A response with several calls is divided among them.
    Tool,
    /// The git branch.
    Branch,
    /// The subagent, or the main conversation.
    Subagent,
    /// Blocks of five hours, the period of limits.
    Block,
}

impl UsageGrouping {
    /// All groupings.
    pub const ALL: [Self; 10] = [
        Self::Day,
        Self::Week,
        Self::Month,
        Self::Session,
        Self::Project,
        Self::Model,
        Self::Tool,
        Self::Branch,
        Self::Subagent,
        Self::Block,
    ];

    /// Returns the name used in arguments and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Session => "session",
            Self::Project => "project",
            Self::Model => "model",
            Self::Tool => "tool",
            Self::Branch => "branch",
            Self::Subagent => "subagent",
            Self::Block => "block",
        }
    }

    /// Returns whether groups are in the order of time; others are in the order of cost.
    pub fn is_time(self) -> bool {
        matches!(self, Self::Day | Self::Week | Self::Month | Self::Block)
    }
}

/// The key of a group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UsageKey {
    /// A day, or the first day of a week.
    Date(Date),
    /// A year and a month.
    Month(i16, i8),
    /// A block of five hours, by its beginning.
    Block(Time),
    /// A name: of a model, a tool, a branch; the id of a session or subagent.
    Name(String),
    /// The main conversation, a response without a tool call, a directory without a branch.
    None,
    /// Responses without a time.
    Unknown,
}

impl UsageKey {
    fn named(name: &str) -> Self {
        if name.is_empty() { Self::None } else { Self::Name(name.to_owned()) }
    }
}

/// A block of five hours: it begins with the full hour of a response, and no response follows another by more than five
/// hours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageBlock {
    /// Its beginning.
    pub start: Time,
    /// The time of its last response.
    pub last: Time,
}

impl UsageBlock {
    /// The length of a block.
    pub const MILLIS: i64 = 5 * HOUR;

    /// Returns the end of the block.
    pub fn end(&self) -> Time {
        Time::from_millis(self.start.millis().saturating_add(Self::MILLIS))
    }

    /// Returns whether a response at a time belongs to the block.
    pub fn contains(&self, time: Time) -> bool {
        time >= self.start
            && time < self.end()
            && time.millis().saturating_sub(self.last.millis()) < Self::MILLIS
    }

    /// Adds a response to a block, or begins the next one. Responses come in the order of time.
    pub fn next(current: Option<Self>, time: Time) -> Self {
        match current {
            Some(block) if block.contains(time) => Self { last: time, ..block },
            _ => Self {
                start: Time::from_millis(time.millis().div_euclid(HOUR).saturating_mul(HOUR)),
                last: time,
            },
        }
    }
}

const HOUR: i64 = 3_600_000;

/// Assigns receipts, which come in the order of time, to groups.
pub(super) struct Grouper<'g> {
    grouping: UsageGrouping,
    zone: &'g TimeZone,
    block: Option<UsageBlock>,
}

impl<'g> Grouper<'g> {
    pub(super) fn new(grouping: UsageGrouping, zone: &'g TimeZone) -> Self {
        Self { grouping, zone, block: None }
    }

    /// Returns the groups that a receipt is divided among: one for each tool call, else one.
    pub(super) fn keys(&mut self, receipt: &Receipt<'_>) -> Vec<UsageKey> {
        if self.grouping == UsageGrouping::Tool {
            let tools = receipt.log.ledger.tools(receipt.record);
            if tools.len() > 0 {
                return tools.map(UsageKey::named).collect();
            }
        }
        vec![self.key(receipt)]
    }

    fn key(&mut self, receipt: &Receipt<'_>) -> UsageKey {
        let ledger = &receipt.log.ledger;
        match self.grouping {
            UsageGrouping::Day | UsageGrouping::Week | UsageGrouping::Month => self.date_key(receipt.time),
            UsageGrouping::Session => UsageKey::named(receipt.session()),
            UsageGrouping::Project => UsageKey::named(&receipt.log.project),
            UsageGrouping::Model => UsageKey::named(receipt.model()),
            UsageGrouping::Tool => UsageKey::None,
            UsageGrouping::Branch => UsageKey::named(ledger.git_branch(receipt.record)),
            UsageGrouping::Subagent => match ledger.agent(receipt.record) {
                "" if receipt.record.is_sidechain => UsageKey::Unknown,
                agent => UsageKey::named(agent),
            },
            UsageGrouping::Block => {
                let Some(time) = receipt.time else { return UsageKey::Unknown };
                let block = UsageBlock::next(self.block, time);
                self.block = Some(block);
                UsageKey::Block(block.start)
            }
        }
    }

    fn date_key(&self, time: Option<Time>) -> UsageKey {
        let Some(zoned) = time.and_then(Time::timestamp).map(|time| time.to_zoned(self.zone.clone())) else {
            return UsageKey::Unknown;
        };
        match self.grouping {
            UsageGrouping::Week => UsageKey::Date(monday_of(&zoned)),
            UsageGrouping::Month => UsageKey::Month(zoned.year(), zoned.month()),
            _ => UsageKey::Date(zoned.date()),
        }
    }
}

/// Returns the Monday of the week of a day.
fn monday_of(day: &Zoned) -> Date {
    let since = i64::from(day.weekday().since(Weekday::Monday));
    day.date().checked_sub(jiff::Span::new().days(since)).unwrap_or(day.date())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_begin_at_a_full_hour_and_end_after_five_hours_or_a_pause() {
        let at = |text: &str| Time::parse(format!("2026-03-10T{text}Z").as_bytes()).expect("a time");
        let times = ["08:40:00", "12:59:59", "13:00:00", "20:30:00", "23:59:00"];
        let mut block = None;
        let starts: Vec<String> = times
            .iter()
            .map(|time| {
                let next = UsageBlock::next(block, at(time));
                block = Some(next);
                next.start.to_iso().unwrap_or_default()[11..16].to_owned()
            })
            .collect();
        assert_eq!(starts, ["08:00", "08:00", "13:00", "20:00", "20:00"]);
    }

    #[test]
    fn weeks_begin_on_monday() {
        let monday = |day: &str| {
            let zoned = day.parse::<Date>().expect("a date").to_zoned(TimeZone::UTC).expect("a day");
            monday_of(&zoned).to_string()
        };
        assert_eq!(monday("2026-03-08"), "2026-03-02");
        assert_eq!(monday("2026-03-09"), "2026-03-09");
        assert_eq!(monday("2026-01-01"), "2025-12-29");
    }
}
