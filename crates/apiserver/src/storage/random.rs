//! Random values: uids, and suffixes of generated names.

use ring::rand::{SecureRandom, SystemRandom};

/// Letters and digits that form no words.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // Without randomness names repeat, and the next attempt finds another.
    let _ = SystemRandom::new().fill(&mut bytes);
    bytes
}

/// A uid: a random UUID (version 4).
pub(crate) fn uid() -> String {
    let mut bytes = bytes::<16>();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = String::with_capacity(36);
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

/// The suffix of a generated name.
pub(crate) fn suffix() -> String {
    let letter = |byte: u8| ALPHABET.get(usize::from(byte) % ALPHABET.len()).map_or('x', |letter| char::from(*letter));
    bytes::<5>().into_iter().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_are_random_uuids() {
        let (one, other) = (uid(), uid());
        assert_ne!(one, other);
        let parts: Vec<usize> = one.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert_eq!(one.as_bytes()[14], b'4');
        assert!(suffix().len() == 5 && suffix().chars().all(|c| c.is_ascii_alphanumeric()));
    }
}
