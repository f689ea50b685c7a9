//! What the tests share: logs built as clients write them, a home of their own, the corpus.

pub mod bulky_session;
pub mod clean_laws;
pub mod clone_laws;
pub mod credentials;
mod damage;
mod harmful_findings;
mod home;
pub mod hostile;
mod log;
mod losses;
pub mod markdown;
mod paths;
mod raw_json;
pub mod shapes;
mod shared;
mod test_cases;

pub use damage::{AMBIGUOUS_DAMAGES, DAMAGES, damaged, lines_of, log_of};
pub use harmful_findings::harmful_findings_of;
pub use home::Home;
pub use log::{EntryUuid, LogBuilder, PendingCall};
pub use losses::check_losses;
pub use paths::broken_path_laws;
pub use shared::{logs_under, shared};
pub use test_cases::{named_test_cases, test_cases};
