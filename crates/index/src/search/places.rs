//! The places of messages in the trees of their sessions.

use rethread_model::MessagePlace;
use rustc_hash::FxHashMap;

use crate::catalogue::{Catalogue, LogId};
use crate::error::IndexError;

/// The messages that are not on the active path of their session, as far as they are needed.
#[derive(Debug, Default)]
pub(super) struct OtherPlaces(FxHashMap<(LogId, u32), MessagePlace>);

impl OtherPlaces {
    pub(super) fn read(catalogue: &Catalogue) -> Result<Self, IndexError> {
        Ok(Self(catalogue.messages_off_active_path()?.into_iter().collect()))
    }

    /// Reads only the places of some messages.
    pub(super) fn of(
        catalogue: &Catalogue,
        messages: impl Iterator<Item = (LogId, u32)>,
    ) -> Result<Self, IndexError> {
        let mut places = FxHashMap::default();
        for (log, n) in messages {
            let place = catalogue.place_and_line(log, n)?.map(|(place, _)| place);
            places.extend(place.map(|place| ((log, n), place)));
        }
        Ok(Self(places))
    }

    /// Returns the place of a message.
    pub(super) fn place_of(&self, log: LogId, message_n: u32) -> MessagePlace {
        self.0.get(&(log, message_n)).copied().unwrap_or(MessagePlace::Active)
    }
}
