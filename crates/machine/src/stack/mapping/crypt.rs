//! dm-crypt, by cryptsetup(8).

use super::{Step, Target};
use crate::Machine;
use crate::stack::commands::{Argv, argv};
use crate::stack::layer::Program;
use crate::stack::verify::{Check, Shown, kind_of};
use crate::stack::{Device, Error};
use domain::inventory::{BlockKind, Crypt as Seen};
use domain::stack::{Crypt, CryptKind};

pub(in crate::stack) const PROGRAMS: &[Program] =
    &[Program::of("cryptsetup", "cryptsetup-bin"), Program::of("dmsetup", "dmsetup")];

impl Target for Crypt {
    fn module(&self) -> &'static str {
        "dm-crypt"
    }

    fn steps(&self, device: &str, name: &str, uuid: &str) -> Vec<Step> {
        let header = header(self, device, uuid).map(|argv| Step::Run("make the encrypted volume", argv));
        header.into_iter().chain([Step::Run("open the encrypted volume", open(self, device, name))]).collect()
    }

    fn verify(&self, machine: &dyn Machine, layer: &str, device: &Device) -> Result<Shown, Error> {
        verify(self, machine, layer, device)
    }
}

/// The key is zeros: what is measured does not depend on it, and what is stored is worth nothing.
const KEY: [&str; 2] = ["--key-file", "/dev/zero"];
const LUKS_KEY_BYTES: &str = "64";

/// The header of a LUKS volume; the volume without one has none. The key is derived in as few rounds as
/// cryptsetup allows, for it protects nothing.
fn header(crypt: &Crypt, device: &str, uuid: &str) -> Option<Argv> {
    if crypt.kind == CryptKind::Plain {
        return None;
    }
    let mut all = argv(
        ["cryptsetup", "luksFormat", "--batch-mode", "--type", "luks2", "--uuid", uuid],
        ["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"].map(str::to_owned),
    );
    all.extend(sector_and_cipher(crypt));
    all.extend(KEY.iter().chain(&["--keyfile-size", LUKS_KEY_BYTES]).map(|word| (*word).to_owned()));
    all.push(device.to_owned());
    Some(all)
}

fn sector_and_cipher(crypt: &Crypt) -> Argv {
    let Crypt { cipher, key_size, sector_size, .. } = crypt;
    argv(
        ["--cipher", cipher.as_str(), "--key-size"],
        [key_size.to_string(), "--sector-size".into(), sector_size.to_string()],
    )
}

fn open(crypt: &Crypt, device: &str, name: &str) -> Argv {
    let mut all = argv(["cryptsetup", "open", "--batch-mode", "--type", crypt.kind.name()], []);
    if crypt.kind == CryptKind::Plain {
        all.extend(sector_and_cipher(crypt));
        all.extend(KEY.map(str::to_owned));
    } else {
        all.extend(KEY.iter().chain(&["--keyfile-size", LUKS_KEY_BYTES]).map(|word| (*word).to_owned()));
    }
    let flags = [
        (crypt.same_cpu, "--perf-same_cpu_crypt"),
        (crypt.submit_from_crypt, "--perf-submit_from_crypt_cpus"),
        (crypt.no_read_workqueue, "--perf-no_read_workqueue"),
        (crypt.no_write_workqueue, "--perf-no_write_workqueue"),
    ];
    all.extend(flags.iter().filter(|(is, _)| *is).map(|(_, flag)| (*flag).to_owned()));
    all.extend([device.to_owned(), name.to_owned()]);
    all
}

fn verify(crypt: &Crypt, machine: &dyn Machine, layer: &str, device: &Device) -> Result<Shown, Error> {
    let check = Check { layer };
    let seen: Option<Seen> = match kind_of(machine, &device.name)? {
        Some(BlockKind::DeviceMapper(seen)) => seen.crypt,
        _ => None,
    };
    check.same("cipher", &crypt.cipher, seen.as_ref().map(|seen| seen.cipher.as_str()))?;
    let sector = seen.as_ref().map(|seen| seen.sector.get().to_string());
    check.same("sector_size", &crypt.sector_size.to_string(), sector.as_deref())?;
    let key = seen.as_ref().and_then(|seen| seen.key).map(|key| (key.get() * 8).to_string());
    if key.is_some() {
        check.same("key_size", &crypt.key_size.to_string(), key.as_deref())?;
    }
    let flags = seen.map(|seen| seen.flags).unwrap_or_default();
    for (asked, flag) in [
        (crypt.no_read_workqueue, "no_read_workqueue"),
        (crypt.no_write_workqueue, "no_write_workqueue"),
        (crypt.same_cpu, "same_cpu_crypt"),
        (crypt.submit_from_crypt, "submit_from_crypt_cpus"),
    ] {
        let words = |is| if is { "on" } else { "off" };
        check.same(flag, words(asked), Some(words(flags.iter().any(|f| f == flag))))?;
    }
    let flags: String = flags.iter().map(|flag| format!(", {flag}")).collect();
    Ok(format!("{} {}, sectors of {} bytes{flags}", crypt.kind.name(), crypt.cipher, crypt.sector_size))
}
