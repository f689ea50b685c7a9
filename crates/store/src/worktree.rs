//! Git worktrees: which repository a working directory belongs to, and which worktrees a repository has.
//!
//! Clients make worktrees in `<repository>/.claude/worktrees/NAME`. Any other worktree has a file `.git` that names
//! `<repository>/.git/worktrees/NAME`, which in turn names the worktree. Only these small files are read, and no link
//! is followed.

use std::path::{Path, PathBuf};

use rethread_model::Worktree;

use crate::confined::ConfinedPath;
use crate::dir::FileKind;
use crate::project::project_dir_name;
use crate::skip::SkippedPaths;

/// The maximum size of a file that names a directory.
const MAX_BYTES: u64 = 8 << 10;

/// The maximum number of worktrees that are looked up for one repository.
const MAX_WORKTREES: usize = 1000;

/// The directory of the worktrees that clients make.
const CLIENT_WORKTREES: &str = ".claude/worktrees";

/// Returns the worktree that a directory is, or is in.
pub fn worktree_of(dir: &Path) -> Option<Worktree> {
    client_worktree(&dir.to_string_lossy()).or_else(|| linked_worktree(dir))
}

/// Parses the path of a worktree that a client made. The directory need not exist, nor be one of this machine.
pub fn client_worktree(dir: &str) -> Option<Worktree> {
    let unix = dir.replace('\\', "/");
    let at = unix.rfind(&format!("/{CLIENT_WORKTREES}/"))?;
    let name = unix[at..].strip_prefix('/')?.strip_prefix(CLIENT_WORKTREES)?.strip_prefix('/')?;
    let name = name.split('/').next().filter(|name| !name.is_empty())?;
    Some(Worktree { repository: dir[..at].into(), name: name.to_owned() })
}

/// Reads the file `.git` of a worktree.
fn linked_worktree(dir: &Path) -> Option<Worktree> {
    // The path comes from a log. It must not make this program look for a file on another machine.
    let is_remote = ["//", r"\\", "/net/"].iter().any(|start| dir.to_string_lossy().starts_with(start));
    if is_remote || !dir.is_absolute() {
        return None;
    }
    let text = read_small(&ConfinedPath::new(dir, ".git"))?;
    let admin = dir.join(text.trim().strip_prefix("gitdir:")?.trim());
    let worktrees = admin.parent().filter(|parent| parent.file_name().is_some_and(|n| n == "worktrees"))?;
    let git = worktrees.parent().filter(|git| git.file_name().is_some_and(|name| name == ".git"))?;
    let name = admin.file_name()?.to_string_lossy().into_owned();
    Some(Worktree { repository: git.parent()?.to_owned(), name })
}

/// Returns the directories of the worktrees that a repository records.
pub(crate) fn linked_worktrees(repository: &Path) -> Vec<PathBuf> {
    let worktrees = ConfinedPath::new(repository, ".git/worktrees");
    let entries = worktrees.entries(&SkippedPaths::default());
    let dirs = entries.into_iter().filter(|(_, kind)| *kind == FileKind::Dir).take(MAX_WORKTREES);
    dirs.filter_map(|(name, _)| {
        let link = PathBuf::from(read_small(&worktrees.join(name).join("gitdir"))?.trim());
        link.parent().map(Path::to_owned)
    })
    .collect()
}

/// Returns the beginning of the names of the projects of a repository's worktrees that clients made.
pub(crate) fn client_worktree_prefix(repository: &Path) -> String {
    project_dir_name(&format!("{}/{CLIENT_WORKTREES}/", repository.to_string_lossy()))
}

fn read_small(file: &ConfinedPath) -> Option<String> {
    let bytes = file.stat().ok()?.bytes;
    (bytes <= MAX_BYTES).then(|| file.read().ok()).flatten().and_then(|text| String::from_utf8(text).ok())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn worktrees_name_their_repository() {
        let found = |dir: &str| worktree_of(Path::new(dir)).map(|found| (found.repository, found.name));
        let expected = Some((PathBuf::from("/home/ada/kettle"), "fix".to_owned()));
        assert_eq!(found("/home/ada/kettle/.claude/worktrees/fix"), expected);
        assert_eq!(found("/home/ada/kettle/.claude/worktrees/fix/src"), expected);
        let windows = found(r"C:\kettle\.claude\worktrees\fix");
        assert_eq!(windows, Some((PathBuf::from(r"C:\kettle"), "fix".to_owned())));
        assert_eq!(found("/home/ada/kettle/.claude/worktrees/"), None);
        assert_eq!(found("/home/ada/kettle"), None);
    }

    #[test]
    fn git_files_link_worktrees_and_repositories() {
        let home = tempfile::tempdir().expect("a directory");
        let (repository, tree) = (home.path().join("kettle"), home.path().join("elsewhere"));
        let admin = repository.join(".git/worktrees/fix");
        fs::create_dir_all(&admin).expect("created");
        fs::create_dir(&tree).expect("created");
        fs::write(tree.join(".git"), format!("gitdir: {}\n", admin.display())).expect("written");
        fs::write(admin.join("gitdir"), format!("{}\n", tree.join(".git").display())).expect("written");
        assert_eq!(linked_worktrees(&repository), std::slice::from_ref(&tree));
        let found = worktree_of(&tree);
        assert_eq!(found, Some(Worktree { repository: repository.clone(), name: "fix".to_owned() }));
        assert_eq!(worktree_of(&repository), None, "the directory .git is not a file");
        fs::write(tree.join(".git"), "x".repeat(10_000)).expect("written");
        assert_eq!(worktree_of(&tree), None);
    }
}
