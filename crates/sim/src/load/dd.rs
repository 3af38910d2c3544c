//! A dd workload's operands as a typed load (dd(1), GNU coreutils 9), strictly: what is not modelled is an
//! error.
//!
//! The operands are those of Flyball's studies: `direction` says whether the target is read (to `/dev/null`)
//! or written (from `/dev/zero` or the kernel's random numbers), the rest is dd's own. A write that asks for
//! no sync ends with `fdatasync`, as Flyball has it on a host.
//!
//! Approximate: short reads do not occur.

use super::jobs::{IoRequest, Manner, RequestSource};
use super::options::{Options, Units, Value};
use super::{LoadError, Transfer};
use domain::units::Bytes;
use std::collections::BTreeMap;

/// dd's default block.
const DEFAULT_BLOCK: u64 = 512;
/// dd's multiples end here for us: a block that long is a mistake.
const LONGEST_BLOCK: u64 = 1 << 30;
/// What direct requests have to be multiples of on each device that is modelled.
const DIRECT_UNIT: u64 = 512;

/// Flags and conversions that change nothing in the time of a request.
const WITHOUT_EFFECT: [&str; 6] = ["fullblock", "noatime", "nofollow", "notrunc", "nocreat", "noerror"];

/// Which way the data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
    /// From the target.
    FromTarget,
    /// To the target: zeros.
    ZerosToTarget,
    /// To the target: random numbers of the kernel, which cost much CPU time.
    RandomToTarget,
}

/// How the target's requests are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Flags {
    direct: bool,
    data_synced: bool,
    all_synced: bool,
}

/// What a dd workload asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DdLoad {
    /// Which way.
    pub copied: Copied,
    /// Blocks read (`ibs`); each is a request where the target is read.
    pub input_block: Bytes,
    /// Blocks written (`obs`); each is a request where the target is written.
    pub output_block: Bytes,
    /// Where on the target it begins (`skip` or `seek`).
    pub start: Bytes,
    /// How much it copies; the last request may be shorter than a block.
    pub bytes: Bytes,
    /// Without the page cache (`direct`).
    pub direct: bool,
    /// Each write is on the device when it returns: its data (`dsync`).
    pub data_synced: bool,
    /// Likewise, metadata too (`sync`).
    pub all_synced: bool,
    /// What it ends with, where it writes: an `fsync`, or else an `fdatasync`.
    pub ends_with_fsync: bool,
}

impl DdLoad {
    /// From a workload's operands, on a target of this size.
    ///
    /// # Errors
    /// Where an operand is not modelled, its value is none, or the load would leave the target.
    pub fn parse(options: &BTreeMap<String, String>, target: Bytes) -> Result<Self, LoadError> {
        let mut options = Options::new("dd", options);
        let writes = options.or(&["direction"], false, |value| match value.text {
            "read" => Ok(false),
            "write" => Ok(true),
            _ => Err(value.refuse("read or write is wanted")),
        })?;
        let random = options.or(&["source"], false, |value| match value.text {
            "zero" => Ok(false),
            "random" => Ok(true),
            _ => Err(value.refuse("zero or random is wanted")),
        })?;
        let (input_block, output_block) = blocks(&mut options)?;
        let block = if writes { output_block } else { input_block };
        let (of_input, of_output) = (flags(&mut options, "iflag")?, flags(&mut options, "oflag")?);
        let flags = if writes { of_output } else { of_input };
        let ends_with_fsync = conversions(&mut options)?;
        let (skip, seek) = (options.take(&["skip"])?, options.take(&["seek"])?);
        let start = product(if writes { &seek } else { &skip }, block)?.unwrap_or(0);
        let count = options.take(&["count"])?;
        let bytes = amount(count.as_ref(), writes, input_block, block, start, target)?;
        options.finish(&[], |_| "the simulation does not model this operand".to_owned())?;
        if flags.direct && !(block.is_multiple_of(DIRECT_UNIT) && bytes.is_multiple_of(DIRECT_UNIT)) {
            return Err(LoadError {
                tool: "dd",
                option: if writes { "oflag" } else { "iflag" }.into(),
                value: "direct".into(),
                why: format!("direct requests are multiples of {DIRECT_UNIT} bytes"),
            });
        }
        Ok(Self {
            copied: match (writes, random) {
                (false, _) => Copied::FromTarget,
                (true, false) => Copied::ZerosToTarget,
                (true, true) => Copied::RandomToTarget,
            },
            input_block: Bytes::new(input_block),
            output_block: Bytes::new(output_block),
            start: Bytes::new(start),
            bytes: Bytes::new(bytes),
            direct: flags.direct,
            data_synced: flags.data_synced,
            all_synced: flags.all_synced,
            ends_with_fsync,
        })
    }

    /// Whether the target is written.
    pub fn writes(&self) -> bool {
        self.copied != Copied::FromTarget
    }

    /// The target's requests, each of which waits for the one before. dd's time ends when it has closed the
    /// target (`finish_up`, coreutils' `dd.c`): `closes` is how large the device is that nothing else has
    /// open.
    pub fn requests(&self, closes: Option<Bytes>) -> DdRequests {
        let block = if self.writes() { self.output_block } else { self.input_block };
        let sync = self.writes().then(|| IoRequest::flush(!self.ends_with_fsync));
        let close =
            closes.filter(|_| !self.writes() && !self.direct).map(|size| IoRequest::close(size.get()));
        DdRequests {
            manner: Manner { direct: self.direct, fua: self.data_synced || self.all_synced },
            ends_with: sync.or(close),
            write: self.writes(),
            block: block.get(),
            next: self.start.get(),
            end: self.start.get() + self.bytes.get(),
        }
    }
}

/// The requests of a [`DdLoad`], one after the other.
#[derive(Clone, Debug)]
pub struct DdRequests {
    manner: Manner,
    /// The sync at its end where it writes, the close of a device whose pages it reads.
    ends_with: Option<IoRequest>,
    write: bool,
    block: u64,
    next: u64,
    end: u64,
}

impl Iterator for DdRequests {
    type Item = Transfer;

    fn next(&mut self) -> Option<Transfer> {
        let len = self.block.min(self.end - self.next);
        let transfer = Transfer { write: self.write, offset: Bytes::new(self.next), len: Bytes::new(len) };
        self.next += len;
        (len > 0).then_some(transfer)
    }
}

impl RequestSource for DdRequests {
    fn next(&mut self) -> Option<IoRequest> {
        Iterator::next(self).map(|transfer| self.manner.of(transfer))
    }

    fn finish(&mut self) -> Option<IoRequest> {
        self.ends_with.take()
    }
}

/// `ibs` and `obs`; `bs` is both.
fn blocks(options: &mut Options<'_>) -> Result<(u64, u64), LoadError> {
    let both = options.take(&["bs"])?;
    let mut one = |name| -> Result<u64, LoadError> {
        let own = options.take(&[name])?;
        match (&both, &own) {
            (Some(_), Some(own)) => Err(own.refuse("`bs` is given, which overrides it")),
            (given, own) => given.as_ref().or(own.as_ref()).map_or(Ok(DEFAULT_BLOCK), block_size),
        }
    };
    Ok((one("ibs")?, one("obs")?))
}

/// A block as Flyball gives it to dd: k, M and KiB are powers of 1024, kB and MB powers of 1000.
fn block_size(value: &Value<'_>) -> Result<u64, LoadError> {
    let lower = value.text.to_ascii_lowercase();
    if lower.ends_with(|c: char| c.is_ascii_digit()) {
        return in_bounds(value, value.bytes(Units::Compatible)?);
    }
    let Some(bytes) = Bytes::parse(value.text).filter(|_| !ends_with_bare_b(&lower)) else {
        return Err(value.refuse("a block is a size such as 64k or 1M"));
    };
    in_bounds(value, bytes.get())
}

/// A number and `b`: blocks of 512 to dd, and bytes to everybody else.
fn ends_with_bare_b(lower: &str) -> bool {
    lower.strip_suffix('b').is_some_and(|number| number.ends_with(|c: char| c.is_ascii_digit()))
}

fn in_bounds(value: &Value<'_>, bytes: u64) -> Result<u64, LoadError> {
    if (1..=LONGEST_BLOCK).contains(&bytes) {
        return Ok(bytes);
    }
    Err(value.refuse("a block is 1 byte to 1 GiB long"))
}

fn flags(options: &mut Options<'_>, name: &'static str) -> Result<Flags, LoadError> {
    options.or(&[name], Flags::default(), |value| {
        let mut flags = Flags::default();
        for word in value.text.split(',') {
            match word {
                "direct" => flags.direct = true,
                "dsync" => flags.data_synced = true,
                "sync" => flags.all_synced = true,
                word if WITHOUT_EFFECT.contains(&word) => {}
                word => return Err(value.refuse(format!("the simulation does not model `{word}`"))),
            }
        }
        Ok(flags)
    })
}

/// Whether it ends with `fsync`; without either it ends with `fdatasync`.
fn conversions(options: &mut Options<'_>) -> Result<bool, LoadError> {
    options.or(&["conv"], false, |value| {
        let mut fsync = false;
        for word in value.text.split(',').filter(|word| !word.is_empty()) {
            match word {
                "fsync" => fsync = true,
                "fdatasync" => {}
                word if WITHOUT_EFFECT.contains(&word) => {}
                word => return Err(value.refuse(format!("the simulation does not model `{word}`"))),
            }
        }
        Ok(fsync)
    })
}

/// A number of blocks in bytes.
fn product(value: &Option<Value<'_>>, block: u64) -> Result<Option<u64>, LoadError> {
    let Some(value) = value else { return Ok(None) };
    let bytes = value.whole::<u64>()?.checked_mul(block);
    bytes.map(Some).ok_or_else(|| value.refuse("it reaches beyond each target"))
}

/// How much is copied: as asked, or to the target's end, whole blocks of it where it is written.
fn amount(
    count: Option<&Value<'_>>,
    writes: bool,
    input_block: u64,
    block: u64,
    start: u64,
    target: Bytes,
) -> Result<u64, LoadError> {
    let room = target.get().saturating_sub(start);
    let to_end = if writes { room / block * block } else { room };
    let asked = match count {
        None => Some(to_end),
        Some(value) => value.whole::<u64>()?.checked_mul(input_block),
    };
    let refuse = |why: String| match count {
        Some(value) => value.refuse(why),
        None => LoadError { tool: "dd", option: "bs".into(), value: block.to_string(), why },
    };
    match asked {
        // A read ends at the end of the target, whatever was asked for.
        Some(bytes) if bytes > 0 && (bytes <= room || !writes) && room > 0 => Ok(bytes.min(room)),
        _ => Err(refuse(format!(
            "the target of {target} has room for {to_end} bytes from the beginning that is asked for"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(options: &[(&str, &str)]) -> Result<DdLoad, LoadError> {
        let options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        DdLoad::parse(&options, Bytes::from_mib(1))
    }

    fn offsets(load: &DdLoad) -> Vec<(u64, u64)> {
        load.requests(None).map(|ask| (ask.offset.get(), ask.len.get())).collect()
    }

    #[test]
    fn without_operands_it_reads_the_target_by_512_bytes() {
        let load = parse(&[]).unwrap();
        assert_eq!((load.copied, load.bytes, load.direct), (Copied::FromTarget, Bytes::from_mib(1), false));
        assert_eq!(load.requests(None).count(), 2048);
    }

    #[test]
    fn a_read_ends_with_the_target_and_its_last_block_may_be_short() {
        let load = parse(&[("bs", "300k"), ("skip", "1"), ("count", "99")]).unwrap();
        let k = 1024;
        assert_eq!(offsets(&load), [(300 * k, 300 * k), (600 * k, 300 * k), (900 * k, 124 * k)]);
    }

    #[test]
    fn a_write_fills_the_target_with_whole_blocks_and_ends_with_a_sync() {
        let load = parse(&[("direction", "write"), ("bs", "300k"), ("conv", "notrunc,fsync")]).unwrap();
        assert_eq!((load.requests(None).count(), load.ends_with_fsync), (3, true));
        assert!(load.requests(None).all(|ask| ask.write));
        assert!(!parse(&[("direction", "write")]).unwrap().ends_with_fsync);
    }

    #[test]
    fn what_is_read_through_the_page_cache_ends_with_the_close_of_its_device() {
        let last = |options: &[(&str, &str)], closes| parse(options).unwrap().requests(closes).finish();
        let size = Some(Bytes::from_mib(1));
        assert_eq!(last(&[], size), Some(IoRequest::close(1 << 20)));
        assert_eq!((last(&[], None), last(&[("bs", "4k"), ("iflag", "direct")], size)), (None, None));
        assert_eq!(last(&[("direction", "write"), ("bs", "4k")], size), Some(IoRequest::flush(true)));
    }

    #[test]
    fn a_write_beyond_the_target_is_refused() {
        for options in [
            &[("direction", "write"), ("bs", "1M"), ("seek", "1")][..],
            &[("direction", "write"), ("bs", "64k"), ("count", "17")],
            &[("direction", "write"), ("bs", "64k"), ("count", "0")],
            &[("bs", "1M"), ("skip", "1")],
        ] {
            assert!(parse(options).is_err(), "{options:?}");
        }
    }

    #[test]
    fn blocks_of_input_and_output_differ() {
        let load =
            parse(&[("direction", "write"), ("ibs", "4k"), ("obs", "64k"), ("count", "20"), ("seek", "2")])
                .unwrap();
        // 80 KiB in blocks of 64 KiB from the third on.
        assert_eq!(offsets(&load), [(131_072, 65_536), (196_608, 16_384)]);
    }

    #[test]
    fn flags_count_on_the_side_of_the_target() {
        let read = parse(&[("bs", "4k"), ("iflag", "direct,fullblock"), ("oflag", "dsync")]).unwrap();
        assert!(read.direct && !read.data_synced);
        let write = parse(&[("direction", "write"), ("bs", "4k"), ("oflag", "direct,dsync")]).unwrap();
        assert!(write.direct && write.data_synced && !write.all_synced);
    }

    #[test]
    fn sizes_are_read_as_on_a_host() {
        for (text, bytes) in [("65536", 65_536), ("64k", 65_536), ("64KiB", 65_536), ("64kB", 64_000)] {
            assert_eq!(parse(&[("bs", text)]).unwrap().input_block.get(), bytes, "{text}");
        }
    }

    #[test]
    fn what_is_not_modelled_is_an_error_that_names_it() {
        let error = parse(&[("iflag", "direct,nocache")]).unwrap_err().to_string();
        assert_eq!(
            error,
            "cannot simulate `iflag = direct,nocache` of dd: the simulation does not model `nocache`"
        );
        for options in [
            &[("conv", "swab")][..],
            &[("status", "none")],
            &[("bs", "4b")],
            &[("bs", "0")],
            &[("bs", "2g")],
            &[("bs", "4k"), ("ibs", "8k")],
            &[("count", "1M")],
            &[("direction", "sideways")],
            &[("bs", "1000"), ("iflag", "direct")],
            &[("if", "/dev/sda")],
        ] {
            assert!(parse(options).is_err(), "{options:?}");
        }
    }
}
