//! A disk's data: sparse, in memory or in a file.

use super::Backing;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Memory is taken in pages of this: random 4 KiB writes take what they write.
const PAGE: usize = 4096;

#[derive(Debug)]
pub(super) enum Store {
    Memory { pages: HashMap<u64, Box<[u8; PAGE]>>, most: usize },
    File(File),
}

impl Store {
    /// A disk of zeros.
    pub(super) fn new(backing: &Backing, size: u64) -> io::Result<Self> {
        match backing {
            Backing::Memory(most) => {
                Ok(Self::Memory { pages: HashMap::new(), most: (most.get() / PAGE as u64) as usize })
            }
            Backing::File(path) => {
                let file = File::options().read(true).write(true).create_new(true).open(path)?;
                file.set_len(size)?;
                Ok(Self::File(file))
            }
        }
    }

    /// Reads into all of `to`.
    pub(super) fn read(&self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        match self {
            Self::File(file) => file.read_exact_at(to, offset),
            Self::Memory { pages, .. } => {
                for (page, within, part) in parts(offset, to.len()) {
                    match pages.get(&page) {
                        Some(held) => to[part.clone()].copy_from_slice(&held[within..within + part.len()]),
                        None => to[part].fill(0),
                    }
                }
                Ok(())
            }
        }
    }

    /// Stores all of `from`.
    pub(super) fn write(&mut self, offset: u64, from: &[u8]) -> io::Result<()> {
        match self {
            Self::File(file) => file.write_all_at(from, offset),
            Self::Memory { pages, most } => {
                for (page, within, part) in parts(offset, from.len()) {
                    let bytes = &from[part];
                    let full = pages.len() >= *most;
                    let Some(held) = page_for(pages, page, bytes, full)? else { continue };
                    held[within..within + bytes.len()].copy_from_slice(bytes);
                }
                Ok(())
            }
        }
    }

    /// Makes a range zeros, and gives back what whole pages it takes.
    pub(super) fn zero(&mut self, offset: u64, len: u64) -> io::Result<()> {
        match self {
            Self::File(file) => {
                let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
                Ok(rustix::fs::fallocate(&*file, flags, offset, len)?)
            }
            Self::Memory { pages, .. } => {
                zero_pages(pages, offset, offset + len);
                Ok(())
            }
        }
    }
}

/// The page to write to; none is needed where zeros are written to none.
fn page_for<'a>(
    pages: &'a mut HashMap<u64, Box<[u8; PAGE]>>,
    page: u64,
    bytes: &[u8],
    full: bool,
) -> io::Result<Option<&'a mut Box<[u8; PAGE]>>> {
    if !pages.contains_key(&page) {
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        if full {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
    }
    Ok(Some(pages.entry(page).or_insert_with(|| Box::new([0; PAGE]))))
}

fn zero_pages(pages: &mut HashMap<u64, Box<[u8; PAGE]>>, start: u64, end: u64) {
    let page = PAGE as u64;
    let (first, last) = (start / page, end.div_ceil(page));
    let zero = |number: u64, held: &mut Box<[u8; PAGE]>| {
        let within = |byte: u64| (byte.clamp(number * page, (number + 1) * page) - number * page) as usize;
        held[within(start)..within(end)].fill(0);
        within(start) > 0 || within(end) < PAGE
    };
    // A range of more pages than are held is cheaper seen from what is held.
    if last - first > pages.len() as u64 {
        pages.retain(|number, held| !(first..last).contains(number) || zero(*number, held));
        return;
    }
    for number in first..last {
        if pages.get_mut(&number).is_some_and(|held| !zero(number, held)) {
            pages.remove(&number);
        }
    }
}

/// A range page by page: the page's number, where in it, and which part of the caller's bytes.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = offset + done as u64;
        let within = (at % PAGE as u64) as usize;
        let part = done..len.min(done + PAGE - within);
        done = part.end;
        Some((at / PAGE as u64, within, part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::units::Bytes;
    use proptest::prelude::*;

    const SIZE: usize = 64 << 10;

    fn memory(most: u64) -> Store {
        Store::new(&Backing::Memory(Bytes::new(most)), SIZE as u64).unwrap()
    }

    #[test]
    fn a_full_memory_says_so_and_zeros_need_none() {
        let mut store = memory(PAGE as u64);
        store.write(0, &[1; PAGE]).unwrap();
        assert_eq!(store.write(8192, &[1; 512]).unwrap_err().kind(), io::ErrorKind::StorageFull);
        store.write(8192, &[0; 512]).unwrap();
        store.write(512, &[2; 512]).unwrap();
        store.zero(0, SIZE as u64).unwrap();
        store.write(8192, &[1; 512]).unwrap();
    }

    proptest! {
        #[test]
        fn memory_and_file_hold_what_a_plain_array_holds(
            acts in prop::collection::vec((0..3_u8, 0..SIZE as u64, 1..20_000_usize, any::<u8>()), 1..40),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let file = Backing::File(folder.path().join("data"));
            let mut stores = [memory(1 << 20), Store::new(&file, SIZE as u64).unwrap()];
            let mut plain = vec![0_u8; SIZE];
            for (act, start, len, byte) in acts {
                let len = len.min(SIZE - start as usize);
                let range = start as usize..start as usize + len;
                for store in &mut stores {
                    match act {
                        0 => store.write(start, &vec![byte; len]).unwrap(),
                        1 => store.zero(start, len as u64).unwrap(),
                        _ => {
                            let mut got = vec![7; len];
                            store.read(start, &mut got).unwrap();
                            prop_assert_eq!(&got[..], &plain[range.clone()]);
                        }
                    }
                }
                match act {
                    0 => plain[range].fill(byte),
                    1 => plain[range].fill(0),
                    _ => {}
                }
            }
        }
    }
}
