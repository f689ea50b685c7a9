//! The raw parts of a line, found by `serde_json` and not by our parser.

use serde_json::value::RawValue;

/// Returns the raw members of an entry, in order.
pub(crate) fn members_of(line: &[u8]) -> Vec<(String, &str)> {
    let members: RawMembers<'_> = serde_json::from_slice(line).unwrap_or_default();
    members.0.into_iter().map(|(key, value)| (key, value.get())).collect()
}

/// Returns the raw blocks of a message.
pub(crate) fn blocks_of(line: &[u8]) -> Vec<&str> {
    #[derive(serde::Deserialize)]
    struct RawEntry<'l> {
        #[serde(borrow)]
        message: RawMessage<'l>,
    }
    #[derive(serde::Deserialize)]
    struct RawMessage<'l> {
        #[serde(borrow)]
        content: Vec<&'l RawValue>,
    }
    let row = serde_json::from_slice::<RawEntry<'_>>(line);
    row.map_or_else(|_| Vec::new(), |row| row.message.content.into_iter().map(RawValue::get).collect())
}

/// The raw members of an object, in order.
#[derive(Default)]
struct RawMembers<'l>(Vec<(String, &'l RawValue)>);

impl<'l> serde::Deserialize<'l> for RawMembers<'l> {
    fn deserialize<D: serde::Deserializer<'l>>(from: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'l> serde::de::Visitor<'l> for Visitor {
            type Value = RawMembers<'l>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "an object")
            }

            fn visit_map<A: serde::de::MapAccess<'l>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(RawMembers(members))
            }
        }
        from.deserialize_map(Visitor)
    }
}
