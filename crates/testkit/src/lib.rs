//! Test support: log builders, fixtures and the laws that all results must satisfy.
//!
//! - [`LogBuilder`] writes logs as clients write them. Ids and times are counters, so the same calls give the same
//!   bytes. [`hostile`], [`shapes`], [`bulky_session`] and [`credentials`] build special logs with it, and
//!   [`damaged`] breaks their lines.
//! - [`clone_laws`], [`clean_laws`], [`check_losses`] and [`broken_path_laws`] check properties of a result. They
//!   work on the log itself and do not use the code under test, so that both cannot share a mistake.
//! - [`markdown`] lists the constructs of an exported document that should not be there.
//! - [`Home`] is a temporary config directory, and [`shared()`] finds the corpus and the recorded answers of real
//!   clients if they are available.
//!
//! A law returns the first violation as text; which logs and recipes to try is left to the tests.

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
mod rng;
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
