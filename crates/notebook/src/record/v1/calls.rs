//! Schema 1: system calls, and what filesystems made of them.

use super::Meaning;
use super::measured::{BiosRecord, SpentRecord, TookRecord, names_of, op, role, roles_of};
use domain::calls::{Call, Called, Calls, WithBios};
use domain::time::Nanos;
use domain::units::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CallsRecord {
    of: Vec<CalledRecord>,
    /// Absent where bios were not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    queued: Option<Vec<QueuedRecord>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CalledRecord {
    role: String,
    call: String,
    count: u64,
    failed: u64,
    bytes: u64,
    took: TookRecord,
    spent: SpentRecord,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    woken_by_ns: BTreeMap<String, u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    with_bios: Option<WithBiosRecord>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WithBiosRecord {
    count: u64,
    bios: BiosRecord,
    followed: u64,
    before_ns: u64,
    below_ns: u64,
    between_ns: u64,
    after_ns: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct QueuedRecord {
    device: String,
    role: String,
    operation: String,
    bios: BiosRecord,
}

impl From<&Calls> for CallsRecord {
    fn from(calls: &Calls) -> Self {
        let called = calls.of.iter().map(|((role, call), called)| CalledRecord {
            role: role.name().to_owned(),
            call: call.name().to_owned(),
            count: called.count,
            failed: called.failed,
            bytes: called.bytes.get(),
            took: (&called.took).into(),
            spent: (&called.spent).into(),
            woken_by_ns: names_of(&called.woken_by),
            with_bios: (called.with_bios != WithBios::default()).then(|| (&called.with_bios).into()),
        });
        let queued = calls.queued.as_ref().map(|queued| {
            let one = queued.iter().map(|((device, role, op), bios)| QueuedRecord {
                device: device.clone(),
                role: role.name().to_owned(),
                operation: op.name().to_owned(),
                bios: (*bios).into(),
            });
            one.collect()
        });
        Self { of: called.collect(), queued }
    }
}

impl TryFrom<CallsRecord> for Calls {
    type Error = String;
    fn try_from(record: CallsRecord) -> Meaning<Self> {
        let queued = record.queued.map(|queued| {
            let one = queued.into_iter().map(|one| {
                let QueuedRecord { device, role: of, operation, bios } = one;
                Ok(((device, role(&of)?, op(&operation)?), bios.into()))
            });
            one.collect::<Meaning<_>>()
        });
        let of = record.of.into_iter().map(|one| {
            let call = Call::from_name(&one.call).ok_or_else(|| format!("`{}` is no call", one.call))?;
            Ok(((role(&one.role)?, call), one.try_into()?))
        });
        Ok(Self { of: of.collect::<Meaning<_>>()?, queued: queued.transpose()? })
    }
}

impl TryFrom<CalledRecord> for Called {
    type Error = String;
    fn try_from(record: CalledRecord) -> Meaning<Self> {
        Ok(Self {
            count: record.count,
            failed: record.failed,
            bytes: Bytes::new(record.bytes),
            took: record.took.try_into()?,
            spent: record.spent.try_into()?,
            woken_by: roles_of(record.woken_by_ns)?,
            with_bios: record.with_bios.map(WithBios::from).unwrap_or_default(),
        })
    }
}

impl From<&WithBios> for WithBiosRecord {
    fn from(with: &WithBios) -> Self {
        let [before_ns, below_ns, between_ns, after_ns] = with.times().map(Nanos::get);
        let WithBios { count, bios, followed, .. } = *with;
        Self { count, bios: bios.into(), followed, before_ns, below_ns, between_ns, after_ns }
    }
}

impl From<WithBiosRecord> for WithBios {
    fn from(record: WithBiosRecord) -> Self {
        Self {
            count: record.count,
            bios: record.bios.into(),
            followed: record.followed,
            before: Nanos::new(record.before_ns),
            below: Nanos::new(record.below_ns),
            between: Nanos::new(record.between_ns),
            after: Nanos::new(record.after_ns),
        }
    }
}
