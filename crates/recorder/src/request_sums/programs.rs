//! The programs that sum up requests, one for each of four tracepoints.
//!
//! ```text
//! block_bio_queue     bios[disk, sector] = now
//! block_rq_issue      requests[disk, sector] = (now, now - bios[disk, sector], sectors)
//! block_rq_complete   sums[disk, operation]: one more, sectors, queue and service of requests[disk, sector]
//! block_bio_complete  sums[disk, operation of bios]: one more, sectors, whole since bios[disk, sector]
//! ```
//!
//! What is counted when is as [`events::facts`] does it from events: a bio of a partition is its disk's, a
//! driver may complete a request in parts, and what was not seen to begin counts and has no time.
//!
//! What is on its way stands in a table, where disk and sector hash to; what comes there later takes the
//! place. So neither takes a lock or memory: with a hash map of the kernel's, in which those that were used
//! longest ago make room, the three programs of a request took 1.5 µs where these take 0.7 µs.
//!
//! Each CPU has sums of its own, and on one CPU no program of a tracepoint interrupts another
//! (kernel/trace/bpf_trace.c, `trace_call_bpf`): so nothing here is atomic, and an interrupt that completes a
//! request just when a program runs is not seen. A program that answers 0 would take the event away from
//! everybody else's perf (`perf_trace_run_bpf_submit`), so each answers 1.

use super::instructions::{Code, Compute, Helper, Operand, Place, Register, When, Width};
use Register::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10};
use domain::request::Op;
use domain::took::bucket;
use parse::kernel::tracepoint::Format;

/// The tracepoints, each with the name of its program.
pub const TRACEPOINTS: [(&str, &str); 4] = [
    ("block/block_bio_queue", "flyball_queue"),
    ("block/block_bio_complete", "flyball_bio"),
    ("block/block_rq_issue", "flyball_issue"),
    ("block/block_rq_complete", "flyball_request"),
];

/// The buckets of [`domain::took`] that are kept: of what takes less than 2^7 ns all is in the first, of what
/// takes 2^37 ns, two minutes, or more in the last.
pub const FIRST_BUCKET: u16 = bucket(1 << LEAST_BIT);
pub const BUCKETS: usize = (bucket(u64::MAX >> (63 - MOST_BIT)) - FIRST_BUCKET) as usize + 1;
const LEAST_BIT: u32 = 7;
const MOST_BIT: u32 = 36;

/// Added to an operation's number in the key of sums of bios.
pub const OF_BIOS: u32 = 8;

/// What is on its way has a place in a table of so many.
pub const PLACES: u32 = 1 << PLACE_BITS;
const PLACE_BITS: i32 = 16;

/// The bytes of values and keys. A bio: sector, disk, when it was queued or 0, u64 each.
pub const BIO: usize = 24;
/// A request: sector, disk, when it was issued or 0, how long it was queued or [`UNKNOWN`], sectors that are
/// left, u64 each.
pub const REQUEST: usize = 40;
/// Disk u32, operation u32.
pub const OF: usize = 8;
/// Requests, sectors, then two of [`TIMES`]: queue and service of requests; of bios the second is whole.
pub const SUMS: usize = 16 + 2 * TIMES;
/// How many, all together, the longest, and each bucket's, u64 each.
pub const TIMES: usize = 24 + 8 * BUCKETS;

const QUEUE: i16 = 16;
const SERVICE: i16 = QUEUE + TIMES as i16;

/// A time that is not known, as a number with sign.
const UNKNOWN: i32 = -1;

/// Where what stands in a table has its parts.
const AT_SECTOR: i16 = 0;
const AT_DISK: i16 = 8;
const AT_TIME: i16 = 16;
const AT_QUEUE: i16 = 24;
const AT_LEFT: i16 = 32;

/// Where on the stack: the record's disk and sector, the key of sums, when a request was issued and how long
/// it was queued, and a key of one number.
const DISK: i16 = -8;
const SECTOR: i16 = -16;
const SUMS_KEY: i16 = -24;
const ISSUED: i16 = -32;
const QUEUED: i16 = -40;
const NUMBER: i16 = -48;

/// The flag of an update, `BPF_NOEXIST`.
const IF_NEW: i32 = 1;

/// The descriptors of the maps.
#[derive(Clone, Copy, Debug)]
pub struct Maps {
    /// At 0: whether anything is to be summed up, u32.
    pub is_on: i32,
    /// By number of a partition: that of its disk, u32 each.
    pub disks: i32,
    /// At [`PLACES`]: [`BIO`].
    pub bios: i32,
    /// At [`PLACES`]: [`REQUEST`].
    pub requests: i32,
    /// By [`OF`]: [`SUMS`], of each CPU.
    pub sums: i32,
    /// At 0: [`SUMS`] of nothing.
    pub nothing: i32,
    /// At 0: what found no room among the sums, u64, of each CPU.
    pub without_room: i32,
}

/// Where the fields of a tracepoint lie. The first eight bytes of a record are none that a program may read.
#[derive(Clone, Copy, Debug)]
struct Fields {
    device: i16,
    sector: i16,
    sectors: i16,
    operation: i16,
}

impl Fields {
    fn of(format: &Format) -> Option<Self> {
        let place = |name: &str, size: u32| {
            let field = format.field(name).filter(|field| field.size == size && field.offset >= 8)?;
            field.offset.is_multiple_of(size).then(|| i16::try_from(field.offset).ok())?
        };
        let operation = format.field("rwbs").filter(|field| field.size >= 2 && field.offset >= 8)?;
        Some(Self {
            device: place("dev", 4)?,
            sector: place("sector", 8)?,
            sectors: place("nr_sector", 4)?,
            operation: i16::try_from(operation.offset).ok()?,
        })
    }
}

/// The program of one of [`TRACEPOINTS`]; `None` where its format lacks a field, or there is no such.
pub fn program(tracepoint: &str, format: &Format, maps: Maps) -> Option<Vec<u64>> {
    let fields = Fields::of(format)?;
    let mut code = Code::default();
    let end = code.place();
    let mut program = Program { code, fields, maps, end };
    program.begin();
    match tracepoint {
        "block/block_bio_queue" => program.bio_queued(),
        "block/block_bio_complete" => program.bio_completed(),
        "block/block_rq_issue" => program.issued(),
        "block/block_rq_complete" => program.completed(),
        _ => return None,
    }
    Some(program.end())
}

/// `R6` is the record, `R7` the time, `R8` one that something took, `R9` the sums.
struct Program {
    code: Code,
    fields: Fields,
    maps: Maps,
    end: Place,
}

impl Program {
    fn begin(&mut self) {
        self.code.set(R6, R1);
        self.code.store(Width::Word, (R10, NUMBER), 0);
        self.lookup(self.maps.is_on, NUMBER);
        self.code.jump_if(R0, When::Equal, 0, self.end);
        self.code.load(Width::Word, R1, (R0, 0));
        self.code.jump_if(R1, When::Equal, 0, self.end);
        self.code.call(Helper::Clock);
        self.code.set(R7, R0);
    }

    fn end(mut self) -> Vec<u64> {
        self.code.here(self.end);
        self.code.set(R0, 1);
        self.code.exit();
        self.code.finish()
    }

    fn bio_queued(&mut self) {
        self.place_of_bio();
        self.stand(self.maps.bios, R7);
    }

    fn bio_completed(&mut self) {
        self.place_of_bio();
        self.since_queued();
        self.sums(OF_BIOS);
        self.count();
        self.unless_unknown_add(SERVICE);
    }

    fn issued(&mut self) {
        self.place();
        self.since_queued();
        self.stand(self.maps.requests, R7);
        self.code.store(Width::Double, (R0, AT_QUEUE), R8);
        self.code.load(Width::Word, R1, (R6, self.fields.sectors));
        self.code.store(Width::Double, (R0, AT_LEFT), R1);
    }

    fn completed(&mut self) {
        let (all, has_time) = (self.code.place(), self.code.place());
        self.place();
        self.code.set(R8, UNKNOWN);
        self.found(self.maps.requests, all);
        self.code.store(Width::Double, (R10, ISSUED), R1);
        self.code.load(Width::Double, R2, (R0, AT_QUEUE));
        self.code.store(Width::Double, (R10, QUEUED), R2);
        self.code.load(Width::Double, R9, (R0, AT_LEFT));
        self.since(R1);
        self.code.load(Width::Word, R1, (R6, self.fields.sectors));
        self.code.jump_if(R1, When::GreaterOrEqual, R9, all);

        // A part: what is left is further on.
        self.code.compute(Compute::Subtract, R9, R1);
        self.code.load(Width::Double, R2, (R10, SECTOR));
        self.code.compute(Compute::Add, R2, R1);
        self.code.store(Width::Double, (R10, SECTOR), R2);
        self.code.load(Width::Double, R7, (R10, ISSUED));
        self.stand(self.maps.requests, R7);
        self.code.load(Width::Double, R1, (R10, QUEUED));
        self.code.store(Width::Double, (R0, AT_QUEUE), R1);
        self.code.store(Width::Double, (R0, AT_LEFT), R9);
        self.sums(0);
        self.count_sectors();
        self.code.jump(self.end);

        self.code.here(all);
        self.sums(0);
        self.count();
        self.code.jump_if(R8, When::NotEqual, UNKNOWN, has_time);
        self.code.jump(self.end);
        self.code.here(has_time);
        self.add(SERVICE);
        self.code.load(Width::Double, R8, (R10, QUEUED));
        self.unless_unknown_add(QUEUE);
    }

    /// Where the record's request is; its device is a disk.
    fn place(&mut self) {
        self.code.load(Width::Word, R1, (R6, self.fields.device));
        self.rest_of_place();
    }

    /// The same of a bio: that of a partition has the disk's sector, and of newer kernels (5.11) its own
    /// device.
    fn place_of_bio(&mut self) {
        let is_disk = self.code.place();
        self.code.load(Width::Word, R1, (R6, self.fields.device));
        self.code.store(Width::Word, (R10, NUMBER), R1);
        self.code.store(Width::Word, (R10, DISK), R1);
        self.lookup(self.maps.disks, NUMBER);
        self.code.load(Width::Word, R1, (R10, DISK));
        self.code.jump_if(R0, When::Equal, 0, is_disk);
        self.code.load(Width::Word, R1, (R0, 0));
        self.code.here(is_disk);
        self.rest_of_place();
    }

    fn rest_of_place(&mut self) {
        self.code.store(Width::Double, (R10, DISK), R1);
        self.code.load(Width::Double, R1, (R6, self.fields.sector));
        self.code.store(Width::Double, (R10, SECTOR), R1);
    }

    /// `R0` is what stands in a table where the record's place hashes to: Fibonacci hashing (Knuth, The Art
    /// of Computer Programming 3, 6.4), by the lower 32 bits of the product. Neighbours are spread evenly.
    fn standing(&mut self, table: i32) {
        const GOLDEN: i32 = 0x9e37_79b1_u32.cast_signed();
        self.code.load(Width::Double, R1, (R10, SECTOR));
        self.code.set(R2, R1);
        self.code.compute(Compute::ShiftRight, R2, 32);
        self.code.compute(Compute::Add, R1, R2);
        // Disks are numbered in steps of one or of 2^20: not by the same factor as their sectors.
        self.code.load(Width::Double, R2, (R10, DISK));
        self.code.compute(Compute::Multiply, R2, 0x0101_0101);
        self.code.compute(Compute::Add, R1, R2);
        self.code.compute(Compute::Multiply, R1, GOLDEN);
        self.code.compute(Compute::ShiftLeft, R1, 32);
        self.code.compute(Compute::ShiftRight, R1, 64 - PLACE_BITS);
        self.code.store(Width::Word, (R10, NUMBER), R1);
        self.lookup(table, NUMBER);
        self.code.jump_if(R0, When::Equal, 0, self.end);
    }

    /// The record's place stands in the table since then, whatever stood there; `R0` is where.
    fn stand(&mut self, table: i32, since: Register) {
        self.standing(table);
        // It is nobody's until it is all there.
        self.code.store(Width::Double, (R0, AT_TIME), 0);
        for (part, of_record) in [(AT_SECTOR, SECTOR), (AT_DISK, DISK)] {
            self.code.load(Width::Double, R1, (R10, of_record));
            self.code.store(Width::Double, (R0, part), R1);
        }
        self.code.store(Width::Double, (R0, AT_TIME), since);
    }

    /// `R1` is since when the record's place stands in the table, where it does and is no longer from now on,
    /// and `R0` is where; else it goes on elsewhere.
    fn found(&mut self, table: i32, elsewhere: Place) {
        self.standing(table);
        for (part, of_record) in [(AT_SECTOR, SECTOR), (AT_DISK, DISK)] {
            self.code.load(Width::Double, R1, (R0, part));
            self.code.load(Width::Double, R2, (R10, of_record));
            self.code.jump_if(R1, When::NotEqual, R2, elsewhere);
        }
        self.code.load(Width::Double, R1, (R0, AT_TIME));
        self.code.jump_if(R1, When::Equal, 0, elsewhere);
        self.code.store(Width::Double, (R0, AT_TIME), 0);
    }

    /// `R8` is the time since the bio at this place was queued, which is forgotten.
    fn since_queued(&mut self) {
        let not_seen = self.code.place();
        self.code.set(R8, UNKNOWN);
        self.found(self.maps.bios, not_seen);
        self.since(R1);
        self.code.here(not_seen);
    }

    /// `R8` is the time since then; zero where the clocks of two CPUs are not quite the same.
    fn since(&mut self, then: Register) {
        let is_later = self.code.place();
        self.code.set(R8, R7);
        self.code.compute(Compute::Subtract, R8, then);
        self.code.jump_if(R7, When::GreaterOrEqual, then, is_later);
        self.code.set(R8, 0);
        self.code.here(is_later);
    }

    /// `R9` is the sums of the disk and operation. Where there is no room for them the program ends.
    fn sums(&mut self, more: u32) {
        let found = self.code.place();
        self.operation();
        self.code.compute(Compute::Add, R2, more as i32);
        self.code.store(Width::Word, (R10, SUMS_KEY + 4), R2);
        self.code.load(Width::Word, R1, (R10, DISK));
        self.code.store(Width::Word, (R10, SUMS_KEY), R1);
        self.lookup(self.maps.sums, SUMS_KEY);
        self.code.jump_if(R0, When::NotEqual, 0, found);
        self.code.store(Width::Word, (R10, NUMBER), 0);
        self.lookup(self.maps.nothing, NUMBER);
        self.code.jump_if(R0, When::Equal, 0, self.end);
        // Another CPU may have made them meanwhile: either way they are there, or there is no room.
        self.code.set(R3, R0);
        self.code.load_map(R1, self.maps.sums);
        self.address(R2, SUMS_KEY);
        self.code.set(R4, IF_NEW);
        self.code.call(Helper::Update);
        self.lookup(self.maps.sums, SUMS_KEY);
        self.code.jump_if(R0, When::NotEqual, 0, found);
        self.lookup(self.maps.without_room, NUMBER);
        self.code.jump_if(R0, When::Equal, 0, self.end);
        self.one_more(R0, 0);
        self.code.jump(self.end);
        self.code.here(found);
        self.code.set(R9, R0);
    }

    /// `R2` is the number of the operation by `rwbs`, as [`events`] reads it.
    fn operation(&mut self) {
        let (first, second, known) = (self.code.place(), self.code.place(), self.code.place());
        self.code.load(Width::Byte, R1, (R6, self.fields.operation));
        self.code.jump_if(R1, When::NotEqual, i32::from(b'F'), first);
        // A flush in front of another operation.
        self.code.load(Width::Byte, R3, (R6, self.fields.operation + 1));
        for letter in *b"RWDFN" {
            self.code.jump_if(R3, When::Equal, i32::from(letter), second);
        }
        self.code.jump(first);
        self.code.here(second);
        self.code.set(R1, R3);
        self.code.here(first);
        for (letter, op) in [(b'R', Op::Read), (b'W', Op::Write), (b'D', Op::Discard), (b'F', Op::Flush)] {
            self.code.set(R2, op as i32);
            self.code.jump_if(R1, When::Equal, i32::from(letter), known);
        }
        self.code.set(R2, Op::Other as i32);
        self.code.here(known);
    }

    fn count(&mut self) {
        self.one_more(R9, 0);
        self.count_sectors();
    }

    fn count_sectors(&mut self) {
        self.code.load(Width::Word, R1, (R6, self.fields.sectors));
        self.add_to((R9, 8), R1);
    }

    fn unless_unknown_add(&mut self, at: i16) {
        self.code.jump_if(R8, When::Equal, UNKNOWN, self.end);
        self.add(at);
    }

    /// Adds `R8` to the times that lie there in the sums.
    fn add(&mut self, at: i16) {
        let is_shorter = self.code.place();
        self.one_more(R9, at);
        self.add_to((R9, at + 8), R8);
        self.code.load(Width::Double, R1, (R9, at + 16));
        self.code.jump_if(R1, When::GreaterOrEqual, R8, is_shorter);
        self.code.store(Width::Double, (R9, at + 16), R8);
        self.code.here(is_shorter);
        bucket_of_r8(&mut self.code);
        self.code.compute(Compute::ShiftLeft, R3, 3);
        self.code.compute(Compute::Add, R3, R9);
        self.one_more(R3, at + 24);
    }

    fn one_more(&mut self, address: Register, at: i16) {
        self.add_to((address, at), 1);
    }

    /// Destroys `R2`.
    fn add_to(&mut self, to: (Register, i16), what: impl Into<Operand>) {
        self.code.load(Width::Double, R2, to);
        self.code.compute(Compute::Add, R2, what);
        self.code.store(Width::Double, to, R2);
    }

    /// The address of what is on the stack.
    fn address(&mut self, to: Register, on_stack: i16) {
        self.code.set(to, R10);
        self.code.compute(Compute::Add, to, i32::from(on_stack));
    }

    fn lookup(&mut self, map: i32, key: i16) {
        self.code.load_map(R1, map);
        self.address(R2, key);
        self.code.call(Helper::Lookup);
    }
}

/// `R3` is the bucket of `R8`, counted from [`FIRST_BUCKET`] on. Without branches but two, for the verifier
/// follows each. Destroys `R0` to `R4`.
pub fn bucket_of_r8(code: &mut Code) {
    let (is_long, is_within) = (code.place(), code.place());
    code.set(R1, R8);
    code.jump_if(R1, When::Greater, (1 << LEAST_BIT) - 1, is_long);
    code.set(R1, 1 << LEAST_BIT);
    code.here(is_long);
    // R3 becomes the number of the highest bit, R2 what is above so many bits.
    code.set(R2, R1);
    code.set(R3, 0);
    for step in [5, 4, 3, 2, 1, 0] {
        // R4 is 2^step where there is anything above so many bits, else 0.
        code.set(R4, R2);
        code.compute(Compute::ShiftRight, R4, 1 << step);
        code.set(R0, R4);
        code.negate(R0);
        code.compute(Compute::Or, R4, R0);
        code.compute(Compute::ShiftRight, R4, 63);
        code.compute(Compute::ShiftLeft, R4, step);
        code.compute(Compute::ShiftRight, R2, R4);
        code.compute(Compute::Add, R3, R4);
    }
    // The three bits below the highest.
    code.set(R2, R3);
    code.compute(Compute::Subtract, R2, 3);
    code.compute(Compute::ShiftRight, R1, R2);
    code.compute(Compute::And, R1, 7);
    code.compute(Compute::Subtract, R3, LEAST_BIT as i32);
    code.compute(Compute::ShiftLeft, R3, 3);
    code.compute(Compute::Add, R3, R1);
    code.jump_if(R3, When::Greater, BUCKETS as i32 - 1, is_within);
    let end = code.place();
    code.jump(end);
    code.here(is_within);
    code.set(R3, BUCKETS as i32 - 1);
    code.here(end);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Executes what [`bucket_of_r8`] is written in: computing and jumping.
    fn bucket_by_program(ns: u64) -> u64 {
        let mut code = Code::default();
        bucket_of_r8(&mut code);
        let words = code.finish();
        let (mut registers, mut at) = ([0_u64; 11], 0);
        registers[8] = ns;
        while let Some(word) = words.get(at) {
            let [code, of, low, high, number @ ..] = word.to_le_bytes();
            let (to, from) = (usize::from(of & 15), usize::from(of >> 4));
            let number = i64::from(i32::from_le_bytes(number)).cast_unsigned();
            let operand = if code & 8 == 0 { number } else { registers[from] };
            let (old, jump) = (registers[to], i16::from_le_bytes([low, high]));
            let mut result = old;
            let mut is_taken = false;
            match code & !8 {
                0x07 => result = old.wrapping_add(operand),
                0x17 => result = old.wrapping_sub(operand),
                0x47 => result = old | operand,
                0x57 => result = old & operand,
                0x67 => result = old << operand,
                0x77 => result = old >> operand,
                0x87 => result = old.wrapping_neg(),
                0xb7 => result = operand,
                0x05 => is_taken = true,
                0x25 => is_taken = old > operand,
                other => panic!("{other:#x} is no instruction of this"),
            }
            registers[to] = result;
            at = (at + 1).wrapping_add_signed(if is_taken { jump.into() } else { 0 });
        }
        registers[3]
    }

    #[test]
    fn the_programs_bucket_is_that_of_the_distribution_within_what_is_kept() {
        let around =
            |bit: u32| [0, 1, 7, 8, 100].map(|more| (1_u64 << bit).saturating_add(more << (bit / 2)));
        for ns in (0..64).flat_map(around).chain(0..2000).chain([u64::MAX]) {
            let last = FIRST_BUCKET + BUCKETS as u16 - 1;
            let expected = bucket(ns).clamp(FIRST_BUCKET, last) - FIRST_BUCKET;
            assert_eq!(bucket_by_program(ns), u64::from(expected), "{ns}");
        }
    }

    #[test]
    fn a_format_that_lacks_a_field_makes_no_program() {
        let maps = Maps { is_on: 3, disks: 4, bios: 5, requests: 6, sums: 7, nothing: 8, without_room: 9 };
        let format = "name: block_rq_issue\nID: 1\nformat:\n\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;\n\tfield:char rwbs[8];\toffset:34;\tsize:8;\tsigned:0;\n";
        let of = |text: &str, name: &str| program(name, &Format::parse(text).unwrap(), maps);
        assert!(of(format, "block/block_rq_issue").is_some());
        assert_eq!(of(&format.replace("nr_sector", "bytes"), "block/block_rq_issue"), None);
        assert_eq!(
            of(&format.replace("offset:16;\tsize:8", "offset:16;\tsize:4"), "block/block_rq_issue"),
            None
        );
        assert_eq!(of(format, "block/block_plug"), None);
    }
}
