//! What the tests share: logs built as clients write them, a home of their own, the corpus.

pub mod cleans;
pub mod clones;
mod damage;
mod harms;
pub mod hoard;
mod home;
pub mod hostile;
mod log;
mod losses;
pub mod markdown;
mod paths;
pub mod planted;
pub mod shapes;
mod shared;
mod spelled;
mod tries;

pub use damage::{DAMAGES, UNSURE, damaged, lines_of, log_of};
pub use harms::harm_of;
pub use home::Home;
pub use log::{Call, Log, Mark};
pub use losses::check_losses;
pub use paths::broken_path_laws;
pub use shared::{logs_under, shared};
pub use tries::{tries, tries_of};
