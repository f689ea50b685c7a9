//! Checksums of stored values. SQLite does not notice when a value changes on disk.

use xxhash_rust::xxh3::xxh3_64;

/// The number of bytes before a value that its checksum takes.
pub(crate) const CHECKSUM: usize = 8;

/// Writes the checksum of a value into the bytes that were left free before it.
pub(crate) fn add_checksum(stored: &mut [u8]) {
    let checksum = xxh3_64(&stored[CHECKSUM..]);
    stored[..CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
}

/// Returns the value after a checksum; `None` if it is damaged.
pub(crate) fn without_checksum(stored: &[u8]) -> Option<&[u8]> {
    let (checksum, value) = stored.split_at_checked(CHECKSUM)?;
    (xxh3_64(value).to_le_bytes() == checksum).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_damaged_byte_is_noticed() {
        let mut stored = vec![0; CHECKSUM];
        stored.extend_from_slice(b"a stored value");
        add_checksum(&mut stored);
        assert_eq!(without_checksum(&stored), Some(&b"a stored value"[..]));
        for at in 0..stored.len() {
            let mut damaged = stored.clone();
            damaged[at] ^= 1;
            assert_eq!(without_checksum(&damaged), None, "{at}");
        }
        assert_eq!(without_checksum(b"short"), None);
    }
}
