//! What of a chain the client sends before the next prompt.

use rustc_hash::FxHashSet;

use super::Rows;
use crate::client::Client;
use crate::facts::Role;
use crate::flags::Flags;
use crate::id::Uid;

impl Rows<'_> {
    /// Keeps what the client sends of a chain: from the last compaction on, without what it drops.
    pub(super) fn sent(&self, chain: &[u32]) -> Vec<u32> {
        let client = self.client;
        let mut answered = FxHashSet::default();
        for &slot in chain {
            answered.extend(self.answers_in(slot));
        }
        let called: FxHashSet<u32> = chain.iter().flat_map(|&slot| self.calls_in(slot)).collect();
        // 2.1.325 keeps the open calls that the session ended with and writes an error for each: those
        // of the newest message, with nothing behind them but results.
        let last_prompt = chain.iter().rposition(|&slot| {
            let node = self.node(slot);
            node.role == Role::User && !node.flags.has_result()
        });
        let newest_message = chain.iter().rposition(|&slot| self.node(slot).role == Role::Assistant);
        let newest_id = newest_message.map_or(Uid::NONE, |at| self.message_id(chain[at]));
        let mut rows: Vec<u32> = Vec::with_capacity(chain.len());
        for (i, &slot) in chain.iter().enumerate() {
            let flags = self.node(slot).flags;
            let cut_off = i >= last_prompt.unwrap_or(0) && self.message_id(slot) == newest_id;
            let open_is_kept = client >= Client::V2_1_325 && cut_off;
            if self.node(slot).role == Role::Assistant && flags.has_call() && !open_is_kept {
                let open = self.calls_in(slot).all(|call| !answered.contains(&call));
                if open && (holds_only(flags, Flags::CALL) || client >= Client::V2_1_76) {
                    continue;
                }
            }
            rows.push(slot);
        }
        let boundary = rows.iter().rposition(|&slot| self.node(slot).flags.is_boundary());
        rows.drain(..boundary.unwrap_or(0));
        rows.retain(|&slot| {
            let node = self.node(slot);
            let flags = node.flags;
            if node.role == Role::System {
                return client >= Client::V2_1_76 && flags.is_local_command();
            }
            if !node.is_conversation() || flags.is_api_error() && flags.is_synthetic() {
                return false;
            }
            if flags.is_virtual() && client >= Client::V2_1_112 {
                return false;
            }
            // Blank blocks of a user become the placeholder `(no content)`.
            let user_blocks = node.role == Role::User && !flags.has_string_content();
            if user_blocks && client >= Client::V2_1_200 && holds_only(flags, Flags::BLANK) {
                return false;
            }
            if client >= Client::V2_1_76 && node.role == Role::User && flags.has_result() {
                let any = self.answers_in(slot).any(|call| called.contains(&call));
                return any || flags.has_text() || flags.has_media();
            }
            true
        });
        loop {
            let before = rows.len();
            if client >= Client::V2_1_20 {
                self.drop_hollow(&mut rows, Flags::THINKING);
            }
            if client >= Client::V2_1_76 {
                self.drop_hollow(&mut rows, Flags::BLANK);
            }
            if rows.len() == before {
                break;
            }
        }
        rows.retain(|&slot| {
            let flags = self.node(slot).flags;
            // Of a message with more to it, blank text is dropped all the same.
            let answer = self.node(slot).role == Role::Assistant;
            if client >= Client::V2_1_112 && answer && holds_only(flags, Flags::BLANK) {
                return false;
            }
            flags.has_string_content() || flags.is_local_command() || PARTS.iter().any(|&f| flags.has(f))
        });
        if (Client::V2_0_77..=Client::V2_1_112).contains(&client) {
            self.drop_merged_back(&mut rows);
        }
        rows
    }

    /// Some clients take all answers without an id for one message: each joins the one before it,
    /// unless a prompt stands between that follows no result. What joined is not last any more.
    fn drop_merged_back(&self, rows: &mut Vec<u32>) {
        let mut reachable = false;
        let mut last_is_user = false;
        let mut user_has_result = false;
        rows.retain(|&slot| {
            let node = self.node(slot);
            if node.role != Role::Assistant {
                user_has_result = node.flags.has_result() || last_is_user && user_has_result;
                last_is_user = true;
                return true;
            }
            let without_id = node.flags.lacks_message_id();
            if last_is_user && !user_has_result {
                reachable = false;
            }
            if without_id && reachable {
                return false;
            }
            reachable |= without_id;
            last_is_user = false;
            true
        });
    }

    /// Drops answers that hold nothing but `hollow`, unless their message holds more elsewhere.
    fn drop_hollow(&self, rows: &mut Vec<u32>, hollow: Flags) {
        let substance =
            |flags: Flags| PARTS.iter().any(|&f| f != Flags::THINKING && f != hollow && flags.has(f));
        let full: FxHashSet<Uid> = rows
            .iter()
            .filter(|&&slot| substance(self.node(slot).flags))
            .map(|&slot| self.message_id(slot))
            .filter(|id| !id.is_none())
            .collect();
        rows.retain(|&slot| {
            let node = self.node(slot);
            let droppable = node.role == Role::Assistant && holds_only(node.flags, hollow);
            !droppable || full.contains(&self.message_id(slot))
        });
    }
}

/// What the content of an entry can be made of.
const PARTS: [Flags; 6] =
    [Flags::TEXT, Flags::BLANK, Flags::THINKING, Flags::MEDIA, Flags::CALL, Flags::RESULT];

fn holds_only(flags: Flags, part: Flags) -> bool {
    flags.has(part) && !PARTS.iter().any(|&other| other != part && flags.has(other))
}
