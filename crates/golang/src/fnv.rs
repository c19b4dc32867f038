//! The hash FNV-1a, as Go's `hash/fnv` has it: fast, the same on every machine, and no protection against chosen input.

/// The start of a hash of 64 bits.
const OFFSET_64: u64 = 0xcbf2_9ce4_8422_2325;

/// The hash of 32 bits.
pub fn hash32(bytes: impl IntoIterator<Item = u8>) -> u32 {
    bytes.into_iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// The hash of 64 bits.
pub fn hash64(bytes: impl IntoIterator<Item = u8>) -> u64 {
    hash64_from(OFFSET_64, bytes)
}

/// The hash of 64 bits with another start, for a second hash of the same bytes.
pub fn hash64_from(start: u64, bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_go() {
        // From the documents of FNV: http://www.isthe.com/chongo/tech/comp/fnv/
        for (text, want32, want64) in [
            ("", 0x811c_9dc5, 0xcbf2_9ce4_8422_2325),
            ("a", 0xe40c_292c, 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0xbf9c_f968, 0x8594_4171_f739_67e8),
        ] {
            assert_eq!((hash32(text.bytes()), hash64(text.bytes())), (want32, want64), "{text:?}");
        }
    }
}
