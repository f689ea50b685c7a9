//! The place of what can be deleted at any time: the index, and the copy of the sample sessions.

use std::env;
use std::path::PathBuf;

/// Returns the program's directory in the user's cache directory. `XDG_CACHE_HOME` applies on every platform, if it is
/// absolute.
pub(crate) fn cache_dir() -> Option<PathBuf> {
    let named = |name: &str| env::var_os(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    let usual = || {
        if cfg!(windows) {
            return named("LOCALAPPDATA");
        }
        let home = env::home_dir().filter(|home| home.is_absolute())?;
        Some(home.join(if cfg!(target_os = "macos") { "Library/Caches" } else { ".cache" }))
    };
    Some(named("XDG_CACHE_HOME").or_else(usual)?.join("rethread"))
}
