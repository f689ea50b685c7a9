//! Short names of projects that are listed together.

use std::borrow::Cow;

use rethread_model::{SessionSummary, Worktree};
use rustc_hash::{FxHashMap, FxHashSet};
use unicode_width::UnicodeWidthStr;

/// Returns the name of each session's project: as many of the last components of its directory as distinguish it from
/// the other projects (`api`, or `work/api` and `play/api`), and `~` for the home directory. Worktrees have the name of
/// their repository and their own: `api (worktree fix)`, or `api (fix)` if a name would be wider than `limit`.
pub(crate) fn project_names(
    sessions: &[SessionSummary],
    home: Option<&str>,
    limit: Option<usize>,
) -> Vec<String> {
    let dirs: Vec<Cow<'_, str>> = sessions.iter().map(project_dir).collect();
    let distinct: FxHashSet<&str> = dirs.iter().map(|dir| trim(dir)).collect();
    let short = shortest_names(distinct, MAX_COMPONENTS);
    let name = |(session, dir): (&SessionSummary, &Cow<'_, str>), worktree: &str| {
        let dir = trim(dir);
        let name = if home.map(trim) == Some(dir) { "~" } else { short.get(dir).copied().unwrap_or(dir) };
        match &session.worktree {
            Some(Worktree { name: own, .. }) => format!("{name} ({worktree}{own})"),
            None => name.to_owned(),
        }
    };
    let all = |worktree: &str| -> Vec<String> {
        sessions.iter().zip(&dirs).map(|session| name(session, worktree)).collect()
    };
    let long = all("worktree ");
    if limit.is_some_and(|limit| long.iter().any(|name| name.width() > limit)) { all("") } else { long }
}

/// Returns the directory that names the project of a session.
fn project_dir(session: &SessionSummary) -> Cow<'_, str> {
    match &session.worktree {
        Some(worktree) => worktree.repository.to_string_lossy(),
        None => session.project(),
    }
}

pub(crate) fn trim(dir: &str) -> &str {
    let trimmed = dir.trim_end_matches(['/', '\\']);
    if trimmed.is_empty() { dir } else { trimmed }
}

/// The maximum number of components in a name. Beyond it, the whole directory is the name.
const MAX_COMPONENTS: usize = 6;

/// Maps each directory to its shortest ending of at most `max` components that is no other one's ending of the same
/// length. Directories without such an ending are left out.
pub(crate) fn shortest_names(dirs: FxHashSet<&str>, max: usize) -> FxHashMap<&str, &str> {
    let mut names: FxHashMap<&str, &str> = FxHashMap::default();
    let mut left: Vec<&str> = dirs.into_iter().collect();
    for n in 1..=max {
        let mut count: FxHashMap<&str, usize> = FxHashMap::default();
        for dir in &left {
            *count.entry(last_components(dir, n)).or_default() += 1;
        }
        let is_shared = |dir: &&str| count[last_components(dir, n)] > 1;
        let (shared, unique): (Vec<&str>, Vec<&str>) = left.into_iter().partition(is_shared);
        names.extend(unique.into_iter().map(|dir| (dir, last_components(dir, n))));
        left = shared;
    }
    names
}

/// Returns the last `n` components of a path.
fn last_components(dir: &str, n: usize) -> &str {
    let at = dir.rmatch_indices(['/', '\\']).nth(n - 1);
    at.map(|(at, _)| &dir[at + 1..]).filter(|name| !name.is_empty()).unwrap_or(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn projects_get_the_shortest_distinguishing_name() {
        let dirs = ["/home/ada/work/api", "/home/ada/play/api", "/srv/web", r"C:\web\site", "/", "-opt-gone"];
        let mut names: Vec<(&str, &str)> =
            shortest_names(dirs.into_iter().collect(), MAX_COMPONENTS).into_iter().collect();
        names.sort_unstable();
        assert_eq!(
            names,
            [
                ("-opt-gone", "-opt-gone"),
                ("/", "/"),
                ("/home/ada/play/api", "play/api"),
                ("/home/ada/work/api", "work/api"),
                ("/srv/web", "web"),
                (r"C:\web\site", "site"),
            ]
        );
    }
}
