//! Maps a working directory to the name of its project directory.

/// Returns the directory name that clients use for the project of `cwd`: every UTF-16 unit other than an
/// ASCII letter or digit becomes `-`; a name of more than 200 units is cut and ends in a hash.
pub fn project_dir_name(cwd: &str) -> String {
    let units: Vec<u16> = cwd.encode_utf16().collect();
    let plain = |&unit: &u16| match u8::try_from(unit) {
        Ok(byte) if byte.is_ascii_alphanumeric() => char::from(byte),
        _ => '-',
    };
    if units.len() <= 200 {
        return units.iter().map(plain).collect();
    }
    let hash = units.iter().fold(0i32, |hash, &unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    let mut name: String = units[..200].iter().map(plain).collect();
    name.push('-');
    name.push_str(&base36(hash.unsigned_abs()));
    name
}

fn base36(mut n: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit(n % 36, 36).unwrap_or('0'));
        n /= 36;
        if n == 0 {
            return digits.iter().rev().collect();
        }
    }
}

/// Returns whether a project directory can be that of `cwd`; some builds hash long names differently.
pub fn is_project_dir_for(dir_name: &str, cwd: &str) -> bool {
    let name = project_dir_name(cwd);
    dir_name == name || name.len() > 200 && dir_name.get(..201) == name.get(..201)
}

/// Returns the project directory of `cwd` in a config directory: an existing one, or the one that clients
/// would create.
pub fn project_dir(root: &std::path::Path, cwd: &str) -> std::path::PathBuf {
    let projects = root.join("projects");
    let expected = projects.join(project_dir_name(cwd));
    if expected.is_dir() || project_dir_name(cwd).len() <= 200 {
        return expected;
    }
    let mut dirs = std::fs::read_dir(&projects).into_iter().flatten().filter_map(Result::ok);
    let same = |entry: &std::fs::DirEntry| is_project_dir_for(&entry.file_name().to_string_lossy(), cwd);
    dirs.find(same).map_or(expected, |entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn project_dir_names_match_the_client() {
        assert_eq!(project_dir_name("/home/user/my.app_2"), "-home-user-my-app-2");
        assert_eq!(project_dir_name("/a/é😀"), "-a----", "an emoji is two units");
        let long = format!("/{}", "a".repeat(200));
        let name = project_dir_name(&long);
        assert_eq!(&name[..200], format!("-{}", "a".repeat(199)));
        assert!(name.len() > 201 && name.as_bytes()[200] == b'-');
        assert!(is_project_dir_for(&name, &long));
        assert!(is_project_dir_for(&format!("{}-other", &name[..200]), &long));
        assert!(!is_project_dir_for("-a", "/b"));
    }
}
