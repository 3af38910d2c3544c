//! Modelled disks: a block server that delays each request by a disk model.
//!
//! A disk is reached in one of two ways ([`Reach`]). QEMU has a vhost-user connection to each, which its
//! guest takes for a SCSI disk; what runs on this host (fio, nbdinfo) finds an NBD export on a unix socket. A
//! request's data is read or stored when it arrives; the model (of the crate `disks`) says when it is done;
//! the answer is sent at that moment, multiplied by the machine's time dilation. Deadlines are absolute, so
//! that being late once does not add up. How late answers are is counted for each disk
//! ([`DiskServer::take_account`]), and bounds a trial ([`judge`]).
//!
//! Disks that share a link share a model and a thread; every other disk has its own. What the account does
//! not hold: the time from a client's `send` until this process runs, and from an answer until the client
//! runs.
//!
//! The data begins as zeros and is sparse: 4 KiB pages in memory, up to [`Backing::Memory`]'s bound, or a
//! sparse file. A disk that is kept ([`Backing::Kept`]) has a volatile write cache: the end of the server is
//! a power cut, after which what was flushed is in its file, and of the rest whatever the seed says.

mod clients;
mod clock;
mod connection;
mod kept;
mod model;
mod nbd;
mod region;
mod scsi;
mod serving;
mod store;
mod vhost;
mod virtio_scsi;

use clients::Clients;
use clock::Scale;
use disks::{DiskSet, DiskSpec, LinkSpec};
use domain::lab::DiskService;
use domain::rng::Seed;
use domain::time::Nanos;
use domain::trial::Disturbance;
use domain::units::Bytes;
use model::{Drive, Drives, Geometry};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use serving::{Group, Transport};
use std::collections::{BTreeMap, VecDeque};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use store::{Shape, Store};
use thiserror::Error;
use vhost::Port;

/// A disk to serve.
#[derive(Clone, Debug)]
pub struct ServedDisk {
    /// Its name in the study.
    pub name: String,
    /// Its model.
    pub spec: DiskSpec,
    /// Its size, where it is to be smaller than the model's.
    pub size: Option<Bytes>,
    /// The link that it shares, by name.
    pub link: Option<String>,
    /// Where its data is.
    pub backing: Backing,
}

/// Where a disk's data is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backing {
    /// In memory, at most so much; a write beyond it is answered "no space", and named among the complaints.
    Memory(Bytes),
    /// In a sparse file of this path, which is made anew and removed with the server.
    File(PathBuf),
    /// In a sparse file of this path, which is made where it is missing, and stays. It holds what was
    /// flushed.
    Kept(PathBuf),
}

/// A link to serve disks over.
#[derive(Clone, Debug)]
pub struct ServedLink {
    /// Its name in the study.
    pub name: String,
    /// Its model.
    pub spec: LinkSpec,
}

/// How disks are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach<'a> {
    /// Each over a connection that is made already: QEMU gets the other end ([`DiskServer::take_end`]), as
    /// that of a `vhost-user-scsi-pci`.
    VhostUser,
    /// Each by NBD, on a socket in this folder, which must be there ([`DiskServer::socket`]).
    Nbd(&'a Path),
}

/// Why disks could not be served.
#[derive(Debug, Error)]
pub enum DiskServerError {
    /// Two disks, or two links, of one name.
    #[error("cannot serve the disks: `{0}` is there twice")]
    Twice(String),
    /// A disk on a link that is not there.
    #[error("cannot serve the disk `{disk}`: there is no link `{link}`")]
    NoSuchLink {
        /// The disk.
        disk: String,
        /// The link that it names.
        link: String,
    },
    /// The model and the wanted size do not go together.
    #[error("cannot serve the disk `{disk}`: {error}")]
    Spec {
        /// The disk.
        disk: String,
        /// What is wrong.
        error: strict_toml::Error,
    },
    /// A dilation below 1, or none.
    #[error("cannot serve the disks with a time dilation of {0}: it is at least 1")]
    Dilation(f64),
    /// The system said no.
    #[error("cannot {attempt}: {error}")]
    System {
        /// What was attempted, on what.
        attempt: String,
        /// Why it failed.
        error: std::io::Error,
    },
}

/// Served disks; dropped, it stops its threads and removes its sockets and files.
#[derive(Debug)]
pub struct DiskServer {
    sockets: BTreeMap<String, PathBuf>,
    ends: BTreeMap<String, OwnedFd>,
    files: Vec<PathBuf>,
    /// By the disk's number in the study.
    accounts: BTreeMap<usize, Arc<Mutex<DiskService>>>,
    complaints: Complaints,
    stop: Arc<AtomicBool>,
    wake: Vec<Arc<OwnedFd>>,
    threads: Vec<JoinHandle<()>>,
}

/// What went wrong with clients, of late.
type Complaints = Arc<Mutex<VecDeque<String>>>;

/// How many complaints are kept: a client that tries again and again fills no memory.
const MAX_COMPLAINTS: usize = 32;

impl DiskServer {
    /// Serves disks. Each of the models' times takes `dilation` times as long; the seed decides where each
    /// platter stands at the beginning, and what a power cut leaves of a kept disk.
    ///
    /// # Errors
    /// [`DiskServerError`]; then nothing is left behind.
    pub fn start(
        disks: Vec<ServedDisk>,
        links: Vec<ServedLink>,
        reach: Reach<'_>,
        dilation: f64,
        seed: Seed,
    ) -> Result<Self, DiskServerError> {
        check_names(disks.iter().map(|disk| &disk.name))?;
        check_names(links.iter().map(|link| &link.name))?;
        let scale = Scale::new(dilation).ok_or(DiskServerError::Dilation(dilation))?;
        let mut server = Self {
            sockets: BTreeMap::new(),
            ends: BTreeMap::new(),
            files: Vec::new(),
            accounts: BTreeMap::new(),
            complaints: Complaints::default(),
            stop: Arc::default(),
            wake: Vec::new(),
            threads: Vec::new(),
        };
        let mut numbered: Vec<(usize, ServedDisk)> = disks.into_iter().enumerate().collect();
        // Each link with its disks is one group; the disks that are left are a group each.
        for link in links {
            let on_link = |disk: &ServedDisk| disk.link.as_ref() == Some(&link.name);
            let (members, others) = numbered.into_iter().partition(|(_, disk)| on_link(disk));
            numbered = others;
            server.start_group(members, Some(&link.spec), reach, scale, seed)?;
        }
        for (number, disk) in numbered {
            if let Some(link) = disk.link {
                return Err(DiskServerError::NoSuchLink { disk: disk.name, link });
            }
            server.start_group(vec![(number, disk)], None, reach, scale, seed)?;
        }
        Ok(server)
    }

    /// QEMU's end of the connection to a disk, once; none where there is no such disk, or it is reached
    /// otherwise.
    pub fn take_end(&mut self, name: &str) -> Option<OwnedFd> {
        self.ends.remove(name)
    }

    /// Where a disk's socket is; none where there is no such disk, or it is reached otherwise.
    pub fn socket(&self, name: &str) -> Option<&Path> {
        self.sockets.get(name).map(PathBuf::as_path)
    }

    /// What each disk did since it was last asked, in the model's own time and in the order in which they
    /// were given; counting begins anew.
    pub fn take_account(&self) -> Vec<DiskService> {
        let take = |account: &Arc<Mutex<DiskService>>| {
            let mut account = lock(account);
            let anew = no_service(&account.disk);
            std::mem::replace(&mut *account, anew)
        };
        self.accounts.values().map(take).collect()
    }

    /// What went wrong with clients since it was last asked: connections that were closed, and why.
    pub fn take_complaints(&self) -> Vec<String> {
        lock(&self.complaints).drain(..).collect()
    }

    fn start_group(
        &mut self,
        disks: Vec<(usize, ServedDisk)>,
        link: Option<&LinkSpec>,
        reach: Reach<'_>,
        scale: Scale,
        seed: Seed,
    ) -> Result<(), DiskServerError> {
        let Some((first, _)) = disks.first() else { return Ok(()) };
        let mut models = DiskSet::new(Seed(seed.stream(&format!("disks from {first}")).bits()));
        let link = link.map(|link| models.add_link(link));
        let (mut specs, mut drives) = (Vec::new(), Vec::new());
        for (number, disk) in disks {
            let (spec, drive) = self.drive(number, disk, seed)?;
            models.add_disk(&spec, link);
            specs.push((number, spec));
            drives.push(drive);
        }
        let complaints = Arc::clone(&self.complaints);
        match reach {
            Reach::VhostUser => {
                let port = |(place, (_, spec)): (usize, &(usize, DiskSpec))| {
                    self.port(place, &drives[place].name, spec)
                };
                let transports = specs.iter().enumerate().map(port).collect::<Result<_, _>>()?;
                self.spawn(Drives::new(models, drives, scale, complaints), transports)
            }
            Reach::Nbd(folder) => {
                let clients = |(place, (number, spec)): (usize, &(usize, DiskSpec))| {
                    self.clients(place, *number, &drives[place].name, spec, folder)
                };
                let transports = specs.iter().enumerate().map(clients).collect::<Result<_, _>>()?;
                self.spawn(Drives::new(models, drives, scale, complaints), transports)
            }
        }
    }

    fn drive(
        &mut self,
        number: usize,
        disk: ServedDisk,
        seed: Seed,
    ) -> Result<(DiskSpec, Drive), DiskServerError> {
        let spec = match disk.size {
            None => disk.spec,
            Some(size) => {
                let with_size = disk.spec.with_size(size);
                with_size.map_err(|error| DiskServerError::Spec { disk: disk.name.clone(), error })?
            }
        };
        if let Backing::File(path) = &disk.backing {
            self.files.push(path.clone());
        }
        let shape = Shape { size: spec.capacity.get(), sector: spec.physical_block.get() };
        let rng = seed.stream(&format!("power cut of {}", disk.name));
        let store = Store::new(&disk.backing, shape, rng).map_err(|error| {
            system(format!("make a place for the data of the disk `{}`", disk.name), error)
        })?;
        let account = Arc::new(Mutex::new(no_service(&disk.name)));
        self.accounts.insert(number, Arc::clone(&account));
        let geometry = Geometry::new(&spec);
        Ok((spec, Drive { name: disk.name, geometry, store, account }))
    }

    fn port(&mut self, place: usize, name: &str, spec: &DiskSpec) -> Result<Port, DiskServerError> {
        let failed = |error| system(format!("make a connection to the disk `{name}`"), error);
        let (ours, qemus) = UnixStream::pair().map_err(failed)?;
        self.ends.insert(name.to_owned(), qemus.into());
        Port::new(place, scsi::ScsiIdentity::new(name, spec), ours).map_err(failed)
    }

    fn clients(
        &mut self,
        place: usize,
        number: usize,
        name: &str,
        spec: &DiskSpec,
        folder: &Path,
    ) -> Result<Clients, DiskServerError> {
        let path = folder.join(format!("disk-{number}.nbd"));
        let listener = UnixListener::bind(&path).map_err(|error| {
            system(format!("listen for the disk `{name}` at `{}`", path.display()), error)
        })?;
        self.sockets.insert(name.to_owned(), path);
        listener
            .set_nonblocking(true)
            .map_err(|error| system(format!("make the socket of the disk `{name}` non-blocking"), error))?;
        Ok(Clients::new(place, nbd::Export::new(name, spec), listener))
    }

    fn spawn<D: Transport>(
        &mut self,
        drives: Drives<D::Ticket>,
        transports: Vec<D>,
    ) -> Result<(), DiskServerError> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = eventfd(0, flags).map_err(|error| system("make an eventfd".to_owned(), error.into()))?;
        let wake = Arc::new(wake);
        let group = Group::new(drives, transports, Arc::clone(&self.stop), Arc::clone(&wake));
        let thread = std::thread::Builder::new().name("modelled-disk".to_owned()).spawn(move || group.run());
        let thread = thread.map_err(|error| system("start a disk's thread".to_owned(), error))?;
        self.wake.push(wake);
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for DiskServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        for wake in &self.wake {
            // A full eventfd is readable already.
            let _ = rustix::io::write(wake, &1_u64.to_ne_bytes());
        }
        for thread in self.threads.drain(..) {
            if thread.join().is_err() && !std::thread::panicking() {
                panic!("a disk's thread has panicked; its message is above");
            }
        }
        for path in self.sockets.values().chain(&self.files) {
            // What is gone already need not be removed.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A disk that was late by more than this share of the time that its model gave was not the disk that was
/// asked for: it is the practical threshold at which a difference between trials is claimed.
pub const LATE_SHARE: f64 = 0.02;

/// Lateness below this, in the host's time and summed over a trial, decides nothing, whatever its share: a
/// trial lasts for seconds.
pub const LATE_AT_LEAST: Nanos = Nanos::from_millis(1);

/// Whether a disk was too late in a trial to be believed, in which the guest's clock was slower than the
/// host's by `slowed`.
pub fn judge(service: &DiskService, slowed: f64) -> Option<Disturbance> {
    let bound = (service.modelled.get() as f64 * LATE_SHARE).max(LATE_AT_LEAST.get() as f64 / slowed);
    if service.late.get() as f64 <= bound {
        return None;
    }
    Some(Disturbance {
        kind: "late-disk".to_owned(),
        detail: format!(
            "the modelled disk `{}` answered {} requests {:.1}% late ({} over {} of modelled time, at most {} for one \
             request; the bound is {:.0}%): the host was too busy, or the time dilation is too small",
            service.disk,
            service.requests,
            share(service) * 100.0,
            service.late,
            service.modelled,
            service.latest,
            LATE_SHARE * 100.0,
        ),
    })
}

/// The same of all disks of a machine: one disturbance, of the one that was late by the largest share.
pub fn judge_all(services: &[DiskService], slowed: f64) -> Option<Disturbance> {
    let late: Vec<&DiskService> =
        services.iter().filter(|service| judge(service, slowed).is_some()).collect();
    let worst = late.iter().max_by(|a, b| share(a).total_cmp(&share(b)))?;
    let mut disturbance = judge(worst, slowed)?;
    if late.len() > 1 {
        let others = format!("; {} of {} disks were late, this one most", late.len(), services.len());
        disturbance.detail.push_str(&others);
    }
    Some(disturbance)
}

/// By which share of its modelled time a disk was late.
fn share(service: &DiskService) -> f64 {
    service.late.get() as f64 / service.modelled.get().max(1) as f64
}

fn no_service(disk: &str) -> DiskService {
    DiskService {
        disk: disk.to_owned(),
        requests: 0,
        modelled: Nanos::ZERO,
        late: Nanos::ZERO,
        latest: Nanos::ZERO,
    }
}

fn check_names<'a>(names: impl Iterator<Item = &'a String>) -> Result<(), DiskServerError> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(DiskServerError::Twice(name.clone()));
        }
    }
    Ok(())
}

fn system(attempt: String, error: std::io::Error) -> DiskServerError {
    DiskServerError::System { attempt, error }
}

/// What is behind the lock is plain figures, whole after each statement: a panic elsewhere does not spoil
/// them.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(modelled_ms: u64, late_us: u64) -> DiskService {
        DiskService {
            requests: 100,
            modelled: Nanos::from_millis(modelled_ms),
            late: Nanos::from_micros(late_us),
            latest: Nanos::from_micros(late_us / 2),
            ..no_service("a")
        }
    }

    #[test]
    fn of_many_late_disks_the_worst_is_told_and_how_many_there_are() {
        let all = [service(1_000, 31_000), service(1_000, 90_000), service(1_000, 10)];
        let late = judge_all(&all, 1.0).unwrap();
        assert!(late.detail.contains("9.0% late"), "{}", late.detail);
        assert!(late.detail.ends_with("2 of 3 disks were late, this one most"), "{}", late.detail);
        assert_eq!(judge_all(&all[2..], 1.0), None);
    }

    #[test]
    fn a_disk_is_late_beyond_two_percent_of_its_modelled_time() {
        assert_eq!(judge(&service(1_000, 20_000), 1.0), None);
        let late = judge(&service(1_000, 31_000), 1.0).unwrap();
        assert_eq!(late.kind, "late-disk");
        assert!(late.detail.contains("`a` answered 100 requests 3.1% late"), "{}", late.detail);
    }

    #[test]
    fn a_disk_that_did_nothing_is_not_late() {
        assert_eq!(judge(&no_service("a"), 1.0), None);
        assert_eq!(judge(&service(0, 900), 1.0), None);
        assert!(judge(&service(0, 900), 10.0).is_some(), "nine milliseconds of the host's");
    }
}
