//! A column of values waiting to be written: differences from one value to the next, as numbers of as few
//! bytes as they need (LEB128 of the zigzagged difference, plus one; zero stands for an absent value).
//!
//! Most counters change little from one sample to the next, so a value takes one or two bytes here instead of
//! sixteen; that is what lets a row group be large while memory stays small.

/// A column of values, packed.
#[derive(Debug, Default)]
pub(crate) struct Packed {
    bytes: Vec<u8>,
    last: u64,
}

impl Packed {
    pub(crate) fn push(&mut self, value: Option<u64>) {
        let Some(value) = value else {
            self.bytes.push(0);
            return;
        };
        let difference = value.wrapping_sub(self.last).cast_signed();
        self.last = value;
        let zigzag = ((difference << 1) ^ (difference >> 63)).cast_unsigned();
        // One more than 64 bits, since zero is taken.
        let mut rest = u128::from(zigzag) + 1;
        while rest >= 0x80 {
            self.bytes.push((rest & 0x7f) as u8 | 0x80);
            rest >>= 7;
        }
        self.bytes.push(rest as u8);
    }

    /// How many bytes it takes.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The values, in the order in which they were pushed.
    pub(crate) fn values(&self) -> impl Iterator<Item = Option<u64>> {
        let mut bytes = self.bytes.iter().copied();
        let mut last = 0_u64;
        std::iter::from_fn(move || {
            let mut number = 0_u128;
            let mut shift = 0;
            loop {
                let byte = bytes.next()?;
                number |= u128::from(byte & 0x7f) << shift;
                shift += 7;
                if byte & 0x80 == 0 {
                    break;
                }
            }
            if number == 0 {
                return Some(None);
            }
            let zigzag = (number - 1) as u64;
            let difference = (zigzag >> 1).cast_signed() ^ -((zigzag & 1).cast_signed());
            last = last.wrapping_add_signed(difference);
            Some(Some(last))
        })
    }

    /// Forgets the values and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.last = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn values_come_back_as_they_were_pushed(values in proptest::collection::vec(any::<Option<u64>>(), 0..50)) {
            let mut packed = Packed::default();
            for value in &values {
                packed.push(*value);
            }
            prop_assert_eq!(packed.values().collect::<Vec<_>>(), values);
        }
    }

    #[test]
    fn the_farthest_values_fit() {
        let values = [Some(u64::MAX), Some(0), None, Some(1 << 63), Some(0), Some(u64::MAX)];
        let mut packed = Packed::default();
        values.iter().for_each(|v| packed.push(*v));
        assert_eq!(packed.values().collect::<Vec<_>>(), values);
    }

    #[test]
    fn a_counter_that_stands_still_takes_a_byte_a_sample() {
        let mut packed = Packed::default();
        (0..100).for_each(|_| packed.push(Some(12)));
        assert_eq!(packed.size(), 100);
    }
}
