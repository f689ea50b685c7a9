//! The clients with known rules, by version.
//!
//! The rules for resuming a session changed over time. [`Client`] names the version ranges with the same
//! rules, [`crate::rules`] lists the rules, and [`crate::resume`] applies them. They were found by running the
//! clients.

use crate::rules::ClientRule;

/// A client, named after the newest version known to have its rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Client {
    /// Before 2.0: the newest time decides.
    V1_0_128,
    /// Up to 2.0.50: the same, and results of parallel calls form a chain.
    V2_0_36,
    /// Later 2.0.x: the same, but results of parallel calls are siblings.
    V2_0_77,
    /// From 2.1.20: progress entries are part of the tree.
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
    /// The newest known client.
    pub const NEWEST: Self = Self::V2_1_325;

    /// All clients, oldest first.
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

    /// Clients still in use. Clients update themselves, so older ones are rare.
    pub const IN_USE: [Self; 3] = [Self::V2_1_112, Self::V2_1_200, Self::V2_1_325];

    /// Returns the version that was run to determine the rules.
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

    /// Returns the first version that is assumed to follow its rules. If it is older than the version that
    /// was run, runs of versions in between showed which rules they are closest to; `docs/format.md` lists
    /// them.
    fn since(self) -> &'static str {
        match self {
            // Recovers parallel calls. 2.1.90 and 2.1.100 were run.
            Self::V2_1_112 => "2.1.80",
            // The checkpoint decides. 2.1.150, 2.1.175 and 2.1.205 were run.
            Self::V2_1_200 => "2.1.120",
            // Uses another default model. 2.1.225 and 2.1.321 were run.
            Self::V2_1_325 => "2.1.219",
            _ => self.version(),
        }
    }

    /// Finds the client whose rules a version follows, or the oldest. Returns `None` if it is not a version.
    pub fn for_version(version: &str) -> Option<Self> {
        let wanted = parse_version(version.strip_prefix('v').unwrap_or(version))?;
        let known = |client: &Self| parse_version(client.since()).is_some_and(|v| v <= wanted);
        Some(Self::ALL.into_iter().rev().find(known).unwrap_or(Self::V1_0_128))
    }

    /// Returns the default model, if it affects the request.
    pub(crate) fn default_model(self) -> Option<&'static str> {
        let newest = self.has(ClientRule::DefaultsToOpus55);
        let default = if newest { "claude-opus-5-5" } else { "claude-opus-4-8" };
        self.has(ClientRule::UsesModelOfNewestAnswer).then_some(default)
    }

    /// Returns the offered models, if they affect the request, without `claude-` and date.
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
        if self.has(ClientRule::OffersOpus5) { &OFFERED } else { &OFFERED[..10] }
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
    fn known_version_maps_to_its_client() {
        for client in Client::ALL {
            assert_eq!(Client::for_version(client.version()), Some(client));
        }
    }

    #[test]
    fn other_version_maps_to_measured_client() {
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
