//! The layouts of md, by mdadm's names (mdadm(8), `--layout`), and what those of parity mean.
//!
//! Source: `drivers/md/raid5.h` for the list, `drivers/md/raid5.c: raid5_compute_sector` for the order.

use domain::stack::MdLevel;

/// How a RAID0 over unequal members goes on where the smallest one ends (Linux 5.4, module parameter
/// `raid0.default_layout`). Over equal members both are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Raid0Layout {
    /// The members' turns are counted from the array's beginning.
    Original,
    /// The members' turns are counted from the zone's beginning.
    Alternate,
}

impl Raid0Layout {
    pub(super) fn parse(name: Option<&str>) -> Result<Self, String> {
        match name {
            Some("original" | "1") => Ok(Self::Original),
            None | Some("alternate" | "2") => Ok(Self::Alternate),
            Some(other) => Err(format!("`{other}` is no layout of RAID0: `original` and `alternate` are")),
        }
    }
}

/// Where parity lies in each stripe, and in what order the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ParityLayout {
    /// From the last member down; data from the first member on.
    LeftAsymmetric,
    /// From the first member up; data from the first member on.
    RightAsymmetric,
    /// From the last member down; data from after the parity on, around.
    LeftSymmetric,
    /// From the first member up; data from after the parity on, around.
    RightSymmetric,
    /// On the first member.
    ParityFirst,
    /// On the last member.
    ParityLast,
    /// RAID6 as DDF has it: as [`Self::RightAsymmetric`], with another second parity.
    DdfZeroRestart,
    /// RAID6 as DDF has it: as [`Self::LeftAsymmetric`], a stripe further.
    DdfNRestart,
    /// RAID6 as DDF has it: as [`Self::LeftSymmetric`], with the second parity before the first.
    DdfNContinue,
    /// RAID5's layout over all members but the last, which has the second parity.
    LeftAsymmetric6,
    /// As [`Self::LeftAsymmetric6`].
    RightAsymmetric6,
    /// As [`Self::LeftAsymmetric6`].
    LeftSymmetric6,
    /// As [`Self::LeftAsymmetric6`].
    RightSymmetric6,
    /// As [`Self::LeftAsymmetric6`].
    ParityFirst6,
}

impl ParityLayout {
    /// Those of RAID5.
    pub const RAID5: [Self; 6] = [
        Self::LeftAsymmetric,
        Self::RightAsymmetric,
        Self::LeftSymmetric,
        Self::RightSymmetric,
        Self::ParityFirst,
        Self::ParityLast,
    ];

    /// Those of RAID6.
    pub const RAID6: [Self; 14] = [
        Self::LeftAsymmetric,
        Self::RightAsymmetric,
        Self::LeftSymmetric,
        Self::RightSymmetric,
        Self::ParityFirst,
        Self::ParityLast,
        Self::DdfZeroRestart,
        Self::DdfNRestart,
        Self::DdfNContinue,
        Self::LeftAsymmetric6,
        Self::RightAsymmetric6,
        Self::LeftSymmetric6,
        Self::RightSymmetric6,
        Self::ParityFirst6,
    ];

    /// As mdadm names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LeftAsymmetric => "left-asymmetric",
            Self::RightAsymmetric => "right-asymmetric",
            Self::LeftSymmetric => "left-symmetric",
            Self::RightSymmetric => "right-symmetric",
            Self::ParityFirst => "parity-first",
            Self::ParityLast => "parity-last",
            Self::DdfZeroRestart => "ddf-zero-restart",
            Self::DdfNRestart => "ddf-N-restart",
            Self::DdfNContinue => "ddf-N-continue",
            Self::LeftAsymmetric6 => "left-asymmetric-6",
            Self::RightAsymmetric6 => "right-asymmetric-6",
            Self::LeftSymmetric6 => "left-symmetric-6",
            Self::RightSymmetric6 => "right-symmetric-6",
            Self::ParityFirst6 => "parity-first-6",
        }
    }

    pub(super) fn parse(level: MdLevel, name: Option<&str>) -> Result<Self, String> {
        let known: &[Self] = match (level, name) {
            (MdLevel::Raid4, None) => return Ok(Self::ParityLast),
            (MdLevel::Raid4, Some(_)) => return Err("RAID4 has one layout, without a name".into()),
            (_, None) => return Ok(Self::LeftSymmetric),
            (MdLevel::Raid6, _) => &Self::RAID6,
            (_, Some(_)) => &Self::RAID5,
        };
        let name = match name.unwrap_or_default() {
            "la" => "left-asymmetric",
            "ra" => "right-asymmetric",
            "ls" => "left-symmetric",
            "rs" => "right-symmetric",
            other => other,
        };
        known.iter().copied().find(|layout| layout.name() == name).ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|layout| layout.name()).collect();
            format!("`{name}` is no layout of it: {} are", names.join(", "))
        })
    }

    /// The members with the parities of a stripe.
    pub(super) fn parities(self, members: u32, stripe: u64, with_second: bool) -> (u32, Option<u32>) {
        let all = u64::from(members);
        let turn = |around: u64, from: u64| ((stripe + from) % around) as u32;
        if !with_second {
            let parity = match self {
                Self::LeftAsymmetric | Self::LeftSymmetric => members - 1 - turn(all, 0),
                Self::RightAsymmetric | Self::RightSymmetric => turn(all, 0),
                Self::ParityFirst => 0,
                _ => members - 1,
            };
            return (parity, None);
        }
        let last = members - 1;
        let (parity, second) = match self {
            Self::LeftAsymmetric | Self::LeftSymmetric => after(members, last - turn(all, 0)),
            Self::RightAsymmetric | Self::RightSymmetric | Self::DdfZeroRestart => {
                after(members, turn(all, 0))
            }
            Self::DdfNRestart => after(members, last - turn(all, 1)),
            Self::DdfNContinue => {
                let parity = last - turn(all, 0);
                (parity, (parity + last) % members)
            }
            Self::ParityFirst => (0, 1),
            Self::ParityLast => (members - 2, last),
            Self::LeftAsymmetric6 | Self::LeftSymmetric6 => (members - 2 - turn(all - 1, 0), last),
            Self::RightAsymmetric6 | Self::RightSymmetric6 => (turn(all - 1, 0), last),
            Self::ParityFirst6 => (0, last),
        };
        (parity, Some(second))
    }

    /// The member with a data chunk of a stripe.
    pub(super) fn data(self, members: u32, parity: u32, second: Option<u32>, index: u32) -> u32 {
        match self {
            Self::LeftSymmetric | Self::RightSymmetric => {
                (parity + 1 + u32::from(second.is_some()) + index) % members
            }
            Self::DdfNContinue => (parity + 1 + index) % members,
            Self::LeftSymmetric6 | Self::RightSymmetric6 => (parity + 1 + index) % (members - 1),
            _ => skipping(parity, second, index),
        }
    }
}

/// A parity, and the second one on the next member.
fn after(members: u32, parity: u32) -> (u32, u32) {
    (parity, (parity + 1) % members)
}

/// The members in order, but for those with parity.
fn skipping(parity: u32, second: Option<u32>, index: u32) -> u32 {
    let (low, high) = match second {
        Some(second) => (parity.min(second), parity.max(second)),
        None => (parity, u32::MAX),
    };
    let past_low = index + u32::from(index >= low);
    past_low + u32::from(past_low >= high)
}

/// How RAID10 spreads copies (md(4)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Raid10Layout {
    /// Copies on adjacent members.
    pub near: u32,
    /// Copies further down the members, each time shifted by `near` of them.
    pub far: u32,
    /// The far copies lie in the next chunk, not in the next part of the member.
    pub offset: bool,
    /// Among which members far copies are shifted.
    pub sets: FarSets,
}

/// Among which members RAID10's far copies are shifted (bits 17 and 18 of the layout's word).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FarSets {
    /// All of them: what mdadm makes.
    One,
    /// Sets of members / far: an early version, for few copies that are safe alone.
    Divided,
    /// Sets of near · far: what dm-raid makes with `raid10_use_far_sets`.
    Small,
}

impl Raid10Layout {
    /// From the kernel's word (`/sys/block/mdN/md/layout`): near copies, far copies from bit 8, offset at bit
    /// 16, sets from bit 17.
    ///
    /// # Errors
    /// A word that the kernel refuses.
    pub fn from_word(word: u32) -> Result<Self, String> {
        let sets = match word >> 17 {
            0 => FarSets::One,
            1 => FarSets::Divided,
            2 => FarSets::Small,
            _ => return Err(format!("{word:#x} is no layout of RAID10")),
        };
        let (near, far) = (word & 0xff, word >> 8 & 0xff);
        match near * far {
            0 => Err(format!("{word:#x} is a layout without copies")),
            _ => Ok(Self { near, far, offset: word & 1 << 16 != 0, sets }),
        }
    }

    /// The kernel's word for it.
    pub const fn word(self) -> u32 {
        self.near | self.far << 8 | (self.offset as u32) << 16 | (self.sets as u32) << 17
    }

    pub(super) fn parse(name: Option<&str>) -> Result<Self, String> {
        let name = name.unwrap_or("n2");
        let wrong = || {
            format!("`{name}` is no layout of RAID10: `n2`, `f2` and `o2` are, and others with more copies")
        };
        let copies = name.get(1..).and_then(|digits| digits.parse::<u8>().ok());
        let copies = u32::from(copies.filter(|copies| *copies > 0).ok_or_else(wrong)?);
        let (near, far, offset) = match &name[..1] {
            "n" => (copies, 1, false),
            "f" => (1, copies, false),
            "o" => (1, copies, true),
            _ => return Err(wrong()),
        };
        Ok(Self { near, far, offset, sets: FarSets::One })
    }
}
