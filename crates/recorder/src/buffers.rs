//! Buffers that one thread fills and another writes to a file, so that a disk under load holds up nobody who
//! samples.

use crate::{Error, Result, clock};
use domain::Nanos;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

/// Collects bytes in memory and hands full buffers to a thread that writes them.
#[derive(Debug)]
pub struct Buffers {
    buffer: Vec<u8>,
    capacity: usize,
    full: SyncSender<Vec<u8>>,
    empty: Receiver<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    thread: JoinHandle<Written>,
}

/// What came of the writing.
#[derive(Debug)]
pub struct Written {
    /// CPU time of the writing thread.
    pub cpu: Nanos,
    /// Whether the disk took everything.
    pub result: io::Result<()>,
}

impl Buffers {
    /// Creates the file with its first bytes, and `count` buffers of so many bytes.
    ///
    /// # Errors
    /// Where the file or the thread cannot be made.
    pub fn create(path: &Path, magic: &[u8], capacity: usize, count: usize) -> Result<Self> {
        let error = |error| Error::Spool { action: "create", path: path.to_owned(), error };
        let mut file = File::create(path).map_err(error)?;
        file.write_all(magic).map_err(error)?;
        let (full, to_write) = sync_channel::<Vec<u8>>(count);
        let (give_back, empty) = sync_channel(count);
        let thread = std::thread::Builder::new()
            .name("flyball-spool".to_owned())
            .spawn(move || write_all(&mut file, &to_write, &give_back))
            .map_err(|error| Error::Thread(error.to_string()))?;
        let spare = (1..count).map(|_| Vec::with_capacity(capacity)).collect();
        Ok(Self { buffer: Vec::with_capacity(capacity), capacity, full, empty, spare, thread })
    }

    /// The bytes of one buffer.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Whether so many bytes can be taken without waiting for the disk.
    pub fn has_room(&mut self, bytes: usize) -> bool {
        self.spare.extend(self.empty.try_iter());
        self.capacity - self.buffer.len() >= bytes || !self.spare.is_empty()
    }

    /// Sees to it that so many bytes fit into the buffer that is filled.
    pub fn reserve(&mut self, bytes: usize) {
        if self.buffer.len() + bytes > self.capacity {
            self.hand_over();
        }
    }

    /// Appends bytes for which there is room.
    pub fn put(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Gives the buffer to the writing thread where an empty one is there to take its place.
    pub fn hand_over_if_free(&mut self) {
        self.spare.extend(self.empty.try_iter());
        if !self.spare.is_empty() {
            self.hand_over();
        }
    }

    /// Gives the buffer to the writing thread and takes an empty one: waits only where all are full, which
    /// [`Buffers::has_room`] has excluded but for the first listing of very many threads.
    fn hand_over(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        self.spare.extend(self.empty.try_iter());
        let next = self.spare.pop().or_else(|| self.empty.recv().ok()).unwrap_or_default();
        let full = std::mem::replace(&mut self.buffer, next);
        match self.full.try_send(full) {
            // The channel holds all buffers there are, and the thread ends only after the writer.
            Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
        }
    }

    /// Whether nothing is in the buffer that is filled.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Waits until a buffer that was handed over is in the file.
    #[cfg(test)]
    pub fn wait_until_written(&mut self) {
        self.spare.extend(self.empty.recv());
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// Where the thread panicked.
    pub fn finish(mut self) -> Result<Written> {
        self.hand_over();
        drop(self.full);
        self.thread.join().map_err(|_| Error::Thread("the spool's thread panicked".to_owned()))
    }
}

/// Writes buffers until there are no more; after an error they are dropped, so that sampling goes on.
fn write_all(file: &mut File, to_write: &Receiver<Vec<u8>>, give_back: &SyncSender<Vec<u8>>) -> Written {
    let mut result = Ok(());
    for mut buffer in to_write {
        if result.is_ok() {
            result = file.write_all(&buffer);
        }
        buffer.clear();
        // The sampler may have ended meanwhile.
        let _ = give_back.try_send(buffer);
    }
    Written { cpu: clock::own_thread(), result }
}
