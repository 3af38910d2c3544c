//! dm-crypt, which encrypts each device below it: `Documentation/admin-guide/device-mapper/dm-crypt.rst`.

use super::layer::{Described, Kind};
use super::values::Values;
use super::{Part, StackError};
use std::fmt;

pub(super) const KIND: Kind = Kind {
    name: "crypt",
    keys: &[
        "kind",
        "use",
        "on",
        "type",
        "cipher",
        "key_size",
        "sector_size",
        "no_read_workqueue",
        "no_write_workqueue",
        "same_cpu",
        "submit_from_crypt",
    ],
    read: |values| read(values).map(Part::Crypt),
};

/// dm-crypt (cryptsetup(8)).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Crypt {
    /// With a header or without.
    pub kind: CryptKind,
    /// `aes-xts-plain64`.
    pub cipher: String,
    /// In bits.
    pub key_size: u32,
    /// The unit of encryption: 512 to 4096 bytes.
    pub sector_size: u32,
    /// Decrypt at once, not in a work queue.
    pub no_read_workqueue: bool,
    /// Encrypt at once, not in a work queue.
    pub no_write_workqueue: bool,
    /// Encrypt on the CPU that asked.
    pub same_cpu: bool,
    /// Write from where it was encrypted, not from a thread that sorts.
    pub submit_from_crypt: bool,
}

/// Kinds of encrypted volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CryptKind {
    /// No header: the whole device is data.
    Plain,
    /// LUKS2.
    Luks2,
}

impl CryptKind {
    /// As cryptsetup takes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Luks2 => "luks2",
        }
    }
}

impl Described for Crypt {
    fn gives(&self, below: u32) -> u32 {
        below
    }
}

impl fmt::Display for Crypt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.cipher)
    }
}

fn read(values: &Values<'_>) -> Result<Crypt, StackError> {
    let kinds = [CryptKind::Plain, CryptKind::Luks2].map(|kind| (kind.name(), kind));
    let sectors = [("512", 512), ("1024", 1024), ("2048", 2048), ("4096", 4096)];
    let cipher = values.word("cipher", "-_:()")?.unwrap_or_else(|| "aes-xts-plain64".into());
    let usual = if cipher.contains("xts") { 512 } else { 256 };
    let key_size = values.count("key_size", 64..=1024)?.unwrap_or(usual);
    if !key_size.is_multiple_of(8) {
        return values.refuse("key_size", "is in bits, and has to be a multiple of 8");
    }
    Ok(Crypt {
        kind: values.one_of("type", &kinds, CryptKind::Luks2)?,
        cipher,
        key_size,
        sector_size: values.one_of("sector_size", &sectors, 512)?,
        no_read_workqueue: values.switch("no_read_workqueue", false)?,
        no_write_workqueue: values.switch("no_write_workqueue", false)?,
        same_cpu: values.switch("same_cpu", false)?,
        submit_from_crypt: values.switch("submit_from_crypt", false)?,
    })
}
