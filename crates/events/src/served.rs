//! What the kernel summed up of one device's requests of one operation, as a frame of the file:
//! disk u32, operation u8, requests u64, sectors u64, then queue, service and whole: how many u64, all
//! together u64 ns, the longest u64 ns, how many buckets u16, and of each its number u16 and count u64.

use domain::Nanos;
use domain::request::{Op, Served};
use domain::took::Took;

/// The bytes of a frame of [`crate::Kind::Served`].
pub fn served_bytes(disk: u32, op: Op, served: &Served) -> Vec<u8> {
    let mut bytes = disk.to_le_bytes().to_vec();
    bytes.push(op as u8);
    bytes.extend(served.count.to_le_bytes());
    bytes.extend(served.sectors.to_le_bytes());
    for took in [&served.queue, &served.service, &served.whole] {
        for number in [took.count, took.sum.get(), took.max.get()] {
            bytes.extend(number.to_le_bytes());
        }
        // A distribution has fewer than 2^16 buckets.
        bytes.extend((took.buckets().count() as u16).to_le_bytes());
        for (bucket, count) in took.buckets() {
            bytes.extend(bucket.to_le_bytes());
            bytes.extend(count.to_le_bytes());
        }
    }
    bytes
}

/// The meaning of such bytes.
pub fn served_of(mut bytes: &[u8]) -> Option<((u32, Op), Served)> {
    let disk = u32::from_le_bytes(taken(&mut bytes)?);
    let op = *Op::ALL.get(usize::from(u8::from_le_bytes(taken(&mut bytes)?)))?;
    let (count, sectors) = (number(&mut bytes)?, number(&mut bytes)?);
    let [queue, service, whole] = [took(&mut bytes)?, took(&mut bytes)?, took(&mut bytes)?];
    bytes.is_empty().then_some(((disk, op), Served { count, sectors, queue, service, whole }))
}

fn took(bytes: &mut &[u8]) -> Option<Took> {
    let [count, sum, max] = [number(bytes)?, number(bytes)?, number(bytes)?];
    let buckets = u16::from_le_bytes(taken(bytes)?);
    let bucket = |_| Some((u16::from_le_bytes(taken(bytes)?), number(bytes)?));
    let buckets: Option<Vec<(u16, u64)>> = (0..buckets).map(bucket).collect();
    Took::sums(count, Nanos::new(sum), Nanos::new(max)).with_buckets(buckets?)
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    taken(bytes).map(u64::from_le_bytes)
}

fn taken<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_summed_up_is_read_back_and_nothing_else_is_read() {
        let mut served = Served { count: 3, sectors: 24, ..Served::default() };
        [5_000, 7_000, 90_000].into_iter().for_each(|ns| served.service.add(ns));
        served.queue.add(300);
        let bytes = served_bytes(8 << 20, Op::Write, &served);
        assert_eq!(served_of(&bytes), Some(((8 << 20, Op::Write), served)));
        assert!((0..bytes.len()).all(|end| served_of(&bytes[..end]).is_none()), "one that is cut");
        assert_eq!(served_of(&[&bytes[..], &[0]].concat()), None, "one with more behind it");
        let mut other = bytes;
        other[4] = Op::ALL.len() as u8;
        assert_eq!(served_of(&other), None, "no such operation");
    }
}
