//! The clients whose rules we know, by version.
//!
//! The rule for what is resumed changed over the versions. [`Client`] names the bands in which it is
//! the same; [`crate::resume`] applies it. The rules were found by running the clients;
//! `docs/format.md` lists them.

/// A client, by the newest version that we know to behave like it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Client {
    /// Before 2.0: the newest time decides.
    V1_0_128,
    /// Up to 2.0.50: the same, and results of parallel calls stand in a row.
    V2_0_36,
    /// 2.0.x since then: the same, with parallel results side by side.
    V2_0_77,
    /// 2.1.x: progress entries are part of the tree.
    V2_1_20,
    /// Up to 2.1.76: progress entries break the chain.
    V2_1_76,
    /// 2.1.112: the last entry of the file decides.
    V2_1_112,
    /// 2.1.200: the checkpoint decides.
    V2_1_200,
    /// 2.1.325: the checkpoint decides.
    V2_1_325,
}

impl Client {
    /// The newest client we know.
    pub const NEWEST: Self = Self::V2_1_325;

    /// All of them, oldest first.
    pub const ALL: [Self; 8] = [
        Self::V1_0_128,
        Self::V2_0_36,
        Self::V2_0_77,
        Self::V2_1_20,
        Self::V2_1_76,
        Self::V2_1_112,
        Self::V2_1_200,
        Self::V2_1_325,
    ];

    /// Those that are still in use: clients update themselves, and older ones than these are rare.
    pub const IN_USE: [Self; 3] = [Self::V2_1_112, Self::V2_1_200, Self::V2_1_325];

    /// Returns the version that was run to learn its rules.
    pub fn version(self) -> &'static str {
        match self {
            Self::V1_0_128 => "1.0.128",
            Self::V2_0_36 => "2.0.36",
            Self::V2_0_77 => "2.0.77",
            Self::V2_1_20 => "2.1.20",
            Self::V2_1_76 => "2.1.76",
            Self::V2_1_112 => "2.1.112",
            Self::V2_1_200 => "2.1.200",
            Self::V2_1_325 => "2.1.325",
        }
    }

    /// The first version that is taken to follow its rules. Where it is older than the version that was run, runs
    /// of versions in between showed which set they are closest to; `docs/format.md` lists them.
    fn since(self) -> &'static str {
        match self {
            // Parallel calls are found again; 2.1.90 and 2.1.100 were run.
            Self::V2_1_112 => "2.1.80",
            // The checkpoint decides; 2.1.150, 2.1.175 and 2.1.205 were run.
            Self::V2_1_200 => "2.1.120",
            // Another model is asked; 2.1.225 and 2.1.321 were run.
            Self::V2_1_325 => "2.1.219",
            _ => self.version(),
        }
    }

    /// Finds the client that a version behaves like, or the oldest. Returns nothing for what is no version.
    pub fn for_version(version: &str) -> Option<Self> {
        let wanted = parse_version(version.strip_prefix('v').unwrap_or(version))?;
        let known = |client: &Self| parse_version(client.since()).is_some_and(|v| v <= wanted);
        Some(Self::ALL.into_iter().rev().find(known).unwrap_or(Self::V1_0_128))
    }

    pub(crate) fn picks_newest_entry(self) -> bool {
        self <= Self::V2_1_76
    }

    pub(crate) fn follows_checkpoints(self) -> bool {
        self >= Self::V2_1_200
    }

    /// The model that it asks when nothing else is said, where that decides what is sent.
    pub(crate) fn default_model(self) -> Option<&'static str> {
        match self {
            Self::V2_1_200 => Some("claude-opus-4-8"),
            Self::V2_1_325 => Some("claude-opus-5-5"),
            _ => None,
        }
    }

    /// The models that it offers, where that decides what is sent: without `claude-` and date.
    pub(crate) fn offered_models(self) -> &'static [&'static str] {
        const OFFERED: [&str; 12] = [
            "haiku-4-5",
            "opus-4-5",
            "opus-4-6",
            "opus-4-7",
            "opus-4-8",
            "sonnet-4-5",
            "sonnet-4-6",
            "sonnet-5",
            "fable-5",
            "mythos-5",
            "opus-5",
            "opus-5-5",
        ];
        if self >= Self::V2_1_325 { &OFFERED } else { &OFFERED[..10] }
    }

    /// Knows the list of rows that a compaction kept, not only their ends.
    pub(crate) fn reads_kept_list(self) -> bool {
        self >= Self::V2_1_200
    }

    /// Reads no further than a line that is `null`.
    pub(crate) fn stops_at_null(self) -> bool {
        matches!(self, Self::V2_1_20 | Self::V2_1_76 | Self::V2_1_112)
    }

    /// Joins an entry with a lost parent to the one before it in time.
    pub(crate) fn bridges_lost_parents(self) -> bool {
        self >= Self::V2_1_112
    }
}

fn parse_version(version: &str) -> Option<(u32, u32, u32)> {
    let mut parts = version.split('.').map(|part| part.parse().ok());
    let mut next = || parts.next().flatten();
    let found = (next()?, next()?, next()?);
    parts.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_version_follows_its_own_rules() {
        for client in Client::ALL {
            assert_eq!(Client::for_version(client.version()), Some(client));
        }
    }

    #[test]
    fn a_version_in_between_follows_the_rules_it_was_measured_to() {
        for (version, client) in [
            ("9.0.0", Client::V2_1_325),
            ("2.1.321", Client::V2_1_325),
            ("2.1.219", Client::V2_1_325),
            ("2.1.218", Client::V2_1_200),
            ("2.1.120", Client::V2_1_200),
            ("2.1.119", Client::V2_1_112),
            ("2.1.80", Client::V2_1_112),
            ("2.1.79", Client::V2_1_76),
            ("2.1.75", Client::V2_1_20),
            ("v2.1.325", Client::V2_1_325),
            ("2.0.42", Client::V2_0_36),
            ("0.2.9", Client::V1_0_128),
        ] {
            assert_eq!(Client::for_version(version), Some(client), "{version}");
        }
        for bad in ["", "new", "2.1", "2.1.x", "2.1.3.4"] {
            assert_eq!(Client::for_version(bad), None, "{bad}");
        }
    }
}
