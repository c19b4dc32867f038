//! Numbers that look random, the same for the same seed (Steele, Lea, Flood: Fast splittable pseudorandom number
//! generators).

pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Less than `limit`, and 0 if that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap()
    }

    /// From 1 to `most`, small ones as often as large ones.
    pub fn size(&mut self, most: usize) -> usize {
        let bits = usize::BITS - most.leading_zeros();
        let top = 1_usize << self.below(bits as usize);
        (top + self.below(top)).min(most)
    }

    pub fn is_one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }
}
