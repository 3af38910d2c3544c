//! Settings that are in force only while this process holds a device open.
//!
//! They are in no record: whatever ends this process, `kill -9` included, closes the device, and the kernel
//! takes the value back by itself. So there is nothing that a supervisor or a later start could undo.

use super::apply::value_before;
use super::{Ledger, SettingRecord};
use crate::settings::{Error, Place, same};
use std::path::Path;

impl Ledger<'_> {
    /// Holds a limit until the settings are put back.
    ///
    /// # Errors
    /// [`Error::HeldStricter`] where another process holds a stricter one; [`Error::Read`], [`Error::Write`].
    pub(super) fn hold(&mut self, place: Place, limit_us: String) -> Result<SettingRecord, Error> {
        let before = value_before(self.machine, &place)?;
        let number: i32 = limit_us.parse().expect("the value was encoded as a number that the kernel takes");
        let held = self.machine.hold(Path::new(&place.path), &number.to_ne_bytes());
        let (setting, path) = (place.setting.to_string(), place.path.clone());
        let held = held.map_err(|source| {
            let (setting, path, value) = (setting.clone(), path.clone(), limit_us.clone());
            let hint = super::apply::hint(self.machine, &path, &source);
            Error::Write { setting, value, path, source, hint }
        })?;
        let got = value_before(self.machine, &place)?;
        if !same(&got, &limit_us) {
            return Err(Error::HeldStricter { setting, path, asked: limit_us, got });
        }
        self.limits.push(held);
        Ok(SettingRecord {
            setting: place.setting,
            path: place.path,
            before,
            asked: limit_us,
            got,
            after: None,
        })
    }
}
