//! Token usage as counted by the API.

use rethread_log::Json;
use serde::{Deserialize, Serialize};

/// The tokens of one message, or a sum of many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens that were not cached.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Tokens written to the cache for five minutes.
    pub cache_write_5m: u64,
    /// Tokens written to the cache for an hour.
    pub cache_write_1h: u64,
    /// Tokens read from the cache.
    pub cache_read: u64,
    /// Web searches and fetches.
    pub web: u64,
}

impl Usage {
    /// Parses `message.usage`. Returns `None` if it is not an object.
    pub fn parse(usage: Json<'_>) -> Option<Self> {
        if !usage.is_object() {
            return None;
        }
        let mut found = Self::default();
        let mut written = 0;
        let number = |value: Json<'_>| value.as_u64().unwrap_or(0);
        usage.for_each_member(|key, value| match key {
            b"input_tokens" => found.input = number(value),
            b"output_tokens" => found.output = number(value),
            b"cache_read_input_tokens" => found.cache_read = number(value),
            b"cache_creation_input_tokens" => written = number(value),
            b"cache_creation" => value.for_each_member(|key, value| match key {
                b"ephemeral_5m_input_tokens" => found.cache_write_5m = number(value),
                b"ephemeral_1h_input_tokens" => found.cache_write_1h = number(value),
                _ => {}
            }),
            b"server_tool_use" => value.for_each_member(|key, value| {
                if matches!(key, b"web_search_requests" | b"web_fetch_requests") {
                    found.web = found.web.saturating_add(number(value));
                }
            }),
            _ => {}
        });
        // Clients before 1.0.84 do not record the duration; it was five minutes then.
        found.cache_write_5m = found.cache_write_5m.max(written.saturating_sub(found.cache_write_1h));
        Some(found)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_write_5m = self.cache_write_5m.saturating_add(other.cache_write_5m);
        self.cache_write_1h = self.cache_write_1h.saturating_add(other.cache_write_1h);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.web = self.web.saturating_add(other.web);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_separates_cache_write_durations() {
        let old = Usage::parse(Json::new(br#"{"input_tokens":1,"cache_creation_input_tokens":7}"#));
        assert_eq!(old, Some(Usage { input: 1, cache_write_5m: 7, ..Usage::default() }));
        let new = Usage::parse(Json::new(
            br#"{"output_tokens":2,"cache_creation_input_tokens":7,"cache_creation":{"ephemeral_5m_input_tokens":3,"ephemeral_1h_input_tokens":4},"server_tool_use":{"web_search_requests":1}}"#,
        ));
        let expected = Usage { output: 2, cache_write_5m: 3, cache_write_1h: 4, web: 1, ..Usage::default() };
        assert_eq!(new, Some(expected));
        assert_eq!(Usage::parse(Json::new(b"null")), None);
    }
}
