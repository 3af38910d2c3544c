//! fio's own random numbers, so that a model asks for what fio asks for with the same `randseed`.
//!
//! Each of fio's decisions has a generator of its own (`td_fill_rand_seeds` in its `init.c`), seeded by
//! place, by the job's number and by `randseed`. The generator is a Tausworthe generator of three components
//! and 32 bits (P. L'Ecuyer, "Maximally equidistributed combined Tausworthe generators", Mathematics of
//! Computation 65(213), 1996). Not followed: `random_generator` with another value than the default, and the
//! wider generator that fio takes for more than 2^32 blocks. `tests/fio_requests.rs` has the proof.

use domain::rng::Seed;

/// What random numbers grow from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seeding {
    /// The same in every trial, and in every pass of it (`randrepeat`, the default).
    Repeated,
    /// The same in every trial, all generators from one constant (`allrandrepeat`).
    AllRepeated,
    /// From this number (`randseed` with `randrepeat=0`); each pass has another order.
    Of(u64),
    /// From this number but for random places, which are those of [`Seeding::Repeated`] in the first pass:
    /// fio 3.33 looks whether `randseed` is given after it has seeded them (`add_job` in its `init.c`).
    AllButPlacesOf(u64),
    /// Other ones in each trial (`randrepeat=0`).
    OfTrial,
}

impl Seeding {
    /// Whether every pass over the target has the same order.
    pub fn repeats_passes(self) -> bool {
        matches!(self, Self::Repeated | Self::AllRepeated)
    }
}

/// The generators of one job, one for each kind of decision.
#[derive(Clone, Debug)]
pub struct Draws {
    /// Lengths of reads and of writes.
    pub(super) lengths: [Tausworthe; 2],
    /// Directions.
    pub(super) mix: Tausworthe,
    /// Random places.
    pub(super) places: Tausworthe,
    /// Whether a read, or a write, goes to a random place at all.
    pub(super) leaps: [Tausworthe; 2],
    /// Zones of the target.
    pub(super) zones: Tausworthe,
}

/// fio's `FIO_RANDSEED`.
const REPEATED: u64 = 0xb189_9bed;
/// `randseed` where it is not given.
const DEFAULT_SEED: u64 = 0x89;
/// By which seeds are spread.
const SPREAD: u64 = 0x9e37_0001;

/// fio's numbers of its generators.
const LENGTHS: [usize; 2] = [0, 1];
const MIX: usize = 4;
const PLACES: usize = 6;
const LEAPS: usize = 10;
const ZONES: usize = 16;

impl Draws {
    /// Those of the job with this number, from 0; `trial` counts only where the job fixes no seed.
    pub fn new(seeding: Seeding, number: u32, trial: Seed) -> Self {
        let thread = u64::from(number) + 1;
        let mut seeds = match seeding {
            Seeding::AllRepeated => std::array::from_fn(|place| REPEATED * thread + place as u64),
            Seeding::Repeated => spread(DEFAULT_SEED, thread),
            Seeding::Of(seed) | Seeding::AllButPlacesOf(seed) => spread(seed, thread),
            Seeding::OfTrial => spread(trial.stream("fio").bits() & 0xffff_ffff, thread),
        };
        if !matches!(seeding, Seeding::Of(_) | Seeding::OfTrial) {
            seeds[PLACES] = REPEATED * thread;
        }
        let of = |place: usize| Tausworthe::new(seeds[place] as u32);
        Self {
            lengths: LENGTHS.map(of),
            mix: of(MIX),
            places: of(PLACES),
            leaps: [of(LEAPS), of(LEAPS)],
            zones: of(ZONES),
        }
    }
}

fn spread(seed: u64, thread: u64) -> [u64; ZONES + 1] {
    let mut seed = (0..4).fold(seed, |seed, _| seed.wrapping_mul(SPREAD));
    std::array::from_fn(|place| {
        let own = seed.wrapping_mul(thread).wrapping_add(place as u64);
        seed = seed.wrapping_mul(SPREAD);
        own
    })
}

/// A combined Tausworthe generator of 32 bits, seeded as fio does.
#[derive(Clone, Debug)]
pub(super) struct Tausworthe([u32; 3]);

impl Tausworthe {
    fn new(seed: u32) -> Self {
        /// What fio's `(2^31) + (2^17) + (2^7)` is in C, where `^` is no power.
        const FIRST: u32 = 53;
        const ROUNDS: usize = 6;
        let mut before = FIRST;
        let parts = [1, 7, 15].map(|least| {
            let part = before.wrapping_mul(69069) ^ seed;
            before = if part < least { part + least } else { part };
            before
        });
        let mut made = Self(parts);
        for _ in 0..ROUNDS {
            made.bits();
        }
        made
    }

    /// 32 uniform bits.
    pub(super) fn bits(&mut self) -> u32 {
        let part = |s: u32, [left, right, mask, shift]: [u32; 4]| {
            ((s & mask) << shift) ^ (((s << left) ^ s) >> right)
        };
        let [first, second, third] = &mut self.0;
        *first = part(*first, [13, 19, !1, 12]);
        *second = part(*second, [2, 25, !7, 4]);
        *third = part(*third, [3, 11, !15, 17]);
        *first ^ *second ^ *third
    }

    /// Uniform below a bound, in double precision as fio reckons it.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        (bound as f64 * (f64::from(self.bits()) / 4_294_967_296.0)) as u64
    }

    /// 1 to 100.
    pub(super) fn percent(&mut self) -> u8 {
        1 + self.below(100) as u8
    }

    /// Uniform in [0, 1), of two numbers of fio's.
    pub(super) fn unit(&mut self) -> f64 {
        let wide = (u64::from(self.bits()) << 21) | u64::from(self.bits() >> 11);
        wide as f64 / (1_u64 << 53) as f64
    }
}
