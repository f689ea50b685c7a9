//! Short ids of sessions that still identify them.


/// The ids of all sessions of a library. It shortens an id to a beginning that no other session has, so that what is
/// printed can be typed.
///
/// ```
/// use rethread_model::ShortIds;
///
/// let ids = ShortIds::new(["claude-session-1", "claude-session-2", "3f2a1b0c-0000-4000-8000-000000000000"]);
/// assert_eq!(ids.shorten("3f2a1b0c-0000-4000-8000-000000000000"), "3f2a1b0c");
/// assert_eq!(ids.shorten("claude-session-1"), "claude-session-1");
/// ```
#[derive(Debug, Clone, Default)]
pub struct ShortIds {
    /// The ids, sorted.
    ids: Vec<String>,
}

/// The number of characters that distinguish UUIDs in practice, and that people can read out.
const MIN_CHARS: usize = 8;

impl ShortIds {
    /// Collects the ids of some logs. Several logs may have the same id.
    pub fn new(ids: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut ids: Vec<String> = ids.into_iter().map(Into::into).collect();
        ids.sort_unstable();
        Self { ids }
    }

    /// Returns the shortest beginning of at least eight characters that no other id has; the whole id if another one
    /// begins with it, or if several logs have it.
    pub fn shorten<'i>(&self, id: &'i str) -> &'i str {
        if !self.is_unique(id) {
            return id;
        }
        let (start, end) = self.range(id);
        let before = start.checked_sub(1).map(|before| &self.ids[before]);
        let shared = |other: &String| id.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
        let neighbours = before.into_iter().chain(self.ids.get(end));
        let chars = neighbours.map(|other| shared(other) + 1).max().unwrap_or(0);
        id.char_indices().nth(chars.max(MIN_CHARS)).map_or(id, |(end, _)| &id[..end])
    }

    /// Returns whether at most one log has this id.
    pub fn is_unique(&self, id: &str) -> bool {
        let (start, end) = self.range(id);
        end - start <= 1
    }

    /// Returns where logs with this id are, or would be.
    fn range(&self, id: &str) -> (usize, usize) {
        let start = self.ids.partition_point(|other| other.as_str() < id);
        (start, start + self.ids[start..].partition_point(|other| other == id))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn id_that_begins_another_is_not_shortened() {
        let ids = ShortIds::new([
            "session-a",
            "session-a-2",
            "session-a-2",
            "漢字漢字漢字漢字漢",
            "漢字漢字漢字漢字字",
        ]);
        assert_eq!(ids.shorten("session-a"), "session-a");
        assert_eq!(ids.shorten("session-a-2"), "session-a-2", "no beginning names one of several");
        assert_eq!(ids.shorten("漢字漢字漢字漢字漢"), "漢字漢字漢字漢字漢");
        assert_eq!(ids.shorten("unknown-session"), "unknown-");
        assert!(ids.is_unique("session-a") && !ids.is_unique("session-a-2"));
    }

    proptest! {
        #[test]
        fn short_id_identifies_one_session(ids in prop::collection::btree_set("[ab]{0,14}", 1..12)) {
            let short = ShortIds::new(ids.iter().cloned());
            for id in &ids {
                let name = short.shorten(id);
                prop_assert!(id.starts_with(name) && name.len() >= id.len().min(MIN_CHARS));
                // A name that is an id means that session, whatever other ids begin with it.
                let found: Vec<_> = ids.iter().filter(|other| other.starts_with(name)).collect();
                prop_assert!(name == id || found == [id], "{name} of {id} in {ids:?}");
            }
        }
    }
}
