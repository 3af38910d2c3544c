//! A disk as QEMU's `vhost-user-scsi-pci` reaches it: the guest's requests are read from its own memory, and
//! answered there.
//!
//! Source: QEMU's docs/interop/vhost-user.rst. QEMU gives its guest's memory, where the queues are in it, and
//! an eventfd for each direction ([`device`]); after that it has no part in a request but to pass on the
//! eventfd that says that there is an answer. A read's data is in the guest's memory as soon as the request
//! has come, as is the response: both are the guest's when the queue says so, which is at the moment of the
//! answer.
//!
//! What is in the guest's memory is believed nowhere: a queue that makes no sense is told of and served no
//! more.

mod device;

use super::lock;
use super::model::{Act, Data, Drives, Refusal};
use super::scsi::{self, Decision, ScsiIdentity, Sense};
use super::serving::Transport;
use super::virtio_scsi::{self, CONTROL, FIRST_COMMANDS, HEADER, Outcome, RESPONSE};
use device::{Device, Kick, Memory, Ring};
use domain::time::Nanos;
use rustix::event::{PollFd, PollFlags};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vhost::vhost_user::{BackendReqHandler, Error as ProtocolError};
use virtio_queue::{DescriptorChain, QueueOwnedT, QueueT, Reader, Writer};

/// How long a message of QEMU's may take from its first byte to its last.
const PATIENCE: Duration = Duration::from_secs(1);

type Chain = DescriptorChain<Memory>;

/// A disk's connection to QEMU.
pub(super) struct Port {
    /// The disk's number in its group.
    drive: usize,
    identity: ScsiIdentity,
    /// None once QEMU has left.
    link: Option<Link>,
    device: Arc<Mutex<Device>>,
    /// What is waited for beside the connection.
    kicks: Vec<Kick>,
    /// A request's data on its way between disk and guest.
    data: Vec<u8>,
}

/// The connection over which QEMU says what the device is to be.
struct Link {
    stream: UnixStream,
    handler: BackendReqHandler<Mutex<Device>>,
}

/// A request of the guest's that is not yet answered.
pub(super) struct Ticket {
    ring: usize,
    /// Of the queue: what was begun anew since gets no answer.
    generation: u64,
    chain: Chain,
    /// Bytes that were written to the guest's memory for it.
    written: u32,
}

/// What became of a request.
enum Taken {
    /// It is answered, with so many bytes.
    Answered(u32),
    /// The model has it.
    Waits,
}

impl Port {
    /// A disk at this end of a connection.
    pub(super) fn new(drive: usize, identity: ScsiIdentity, stream: UnixStream) -> io::Result<Self> {
        stream.set_read_timeout(Some(PATIENCE))?;
        let device = Arc::new(Mutex::new(Device::default()));
        let handler = BackendReqHandler::from_stream(stream.try_clone()?, Arc::clone(&device));
        let link = Some(Link { stream, handler });
        Ok(Self { drive, identity, link, device, kicks: Vec::new(), data: Vec::new() })
    }

    /// Hears what QEMU says next.
    fn hear(&mut self, drives: &Drives<Ticket>) {
        let Some(link) = &mut self.link else { return };
        let heard = link.handler.handle_request();
        self.kicks = lock(&self.device).kicks();
        match heard {
            Ok(()) | Err(ProtocolError::SocketRetry(_)) => return,
            // It ends without a goodbye.
            Err(ProtocolError::Disconnected | ProtocolError::SocketBroken(_)) => {}
            Err(error) => {
                let name = drives.name(self.drive);
                drives.complain(format!("closed QEMU's connection to the disk `{name}`: {error}"));
            }
        }
        self.link = None;
    }

    /// The guest says that there are requests on a queue.
    fn take_requests(&mut self, index: usize, now: Nanos, drives: &mut Drives<Ticket>) {
        let device = Arc::clone(&self.device);
        let mut device = lock(&device);
        let Some((ring, memory)) = device.running(index) else { return };
        match self.take_all(index, ring, &memory, now, drives) {
            Ok(()) => {}
            Err(why) => {
                ring.stop();
                let name = drives.name(self.drive);
                drives.complain(format!("queue {index} of the disk `{name}` is served no more: {why}"));
            }
        }
    }

    fn take_all(
        &mut self,
        index: usize,
        ring: &mut Ring,
        memory: &Memory,
        now: Nanos,
        drives: &mut Drives<Ticket>,
    ) -> Result<(), String> {
        let mut answered = false;
        // A guest that adds and adds is not to keep the others waiting: it is heard again after them.
        for _ in 0..ring.queue.size() {
            // It is to say when there are more, before it is looked whether there are.
            let more = ring.queue.enable_notification(&**memory).map_err(|error| error.to_string())?;
            if !more {
                return if answered { ring.call(memory) } else { Ok(()) };
            }
            let mut chains = ring.queue.iter(memory.clone()).map_err(|error| error.to_string())?;
            let chain = chains.next().ok_or("what it offers cannot be read")?;
            if ring.in_flight == ring.queue.size() {
                return Err("it offers more than it holds".to_owned());
            }
            let taken = match index {
                CONTROL => control(&chain, memory).map(Taken::Answered),
                _ if index < FIRST_COMMANDS => Ok(Taken::Waits),
                _ => self.take(index, ring.generation, chain.clone(), memory, now, drives),
            };
            match taken.map_err(|error| error.to_string())? {
                Taken::Waits => ring.in_flight += 1,
                Taken::Answered(written) => {
                    ring.give(chain.head_index(), written, memory)?;
                    answered = true;
                }
            }
        }
        ring.kick_again();
        if answered { ring.call(memory) } else { Ok(()) }
    }

    /// Takes one request: its data now, its time from the model.
    ///
    /// # Errors
    /// What is no request: the guest cannot be answered then.
    fn take(
        &mut self,
        ring: usize,
        generation: u64,
        chain: Chain,
        memory: &Memory,
        now: Nanos,
        drives: &mut Drives<Ticket>,
    ) -> io::Result<Taken> {
        let (mut from, mut response, mut to) = parts(&chain, memory)?;
        let mut header = [0; HEADER];
        from.read_exact(&mut header)?;
        let command = virtio_scsi::command(&header);
        let room = (from.available_bytes() + to.available_bytes()) as u32;
        if !command.is_ours {
            return end(&mut response, Outcome::NoTarget, room, 0);
        }
        let wanted = scsi::parameter_bytes(&command.cdb, &self.identity).min(from.available_bytes());
        self.data.resize(wanted, 0);
        from.read_exact(&mut self.data)?;
        let ask = match scsi::decide(&command.cdb, &self.data, &self.identity) {
            Decision::Do(ask) => ask,
            Decision::Refuse(sense) => return end(&mut response, Outcome::Failed(sense), room, 0),
            Decision::Say(bytes) => {
                let said = bytes.len().min(to.available_bytes());
                to.write_all(&bytes[..said])?;
                return end(&mut response, Outcome::Good, room - said as u32, said);
            }
        };
        let moved = match ask.act {
            Act::Read | Act::Write => ask.len as usize,
            _ => wanted,
        };
        let has_room = match ask.act {
            Act::Read => moved <= to.available_bytes(),
            Act::Write => moved <= from.available_bytes(),
            _ => true,
        };
        if !has_room {
            return end(&mut response, Outcome::Failed(Sense::INVALID_FIELD), room, 0);
        }
        let data = match ask.act {
            Act::Read => {
                self.data.resize(moved, 0);
                Data::To(&mut self.data)
            }
            Act::Write => {
                self.data.resize(moved, 0);
                from.read_exact(&mut self.data)?;
                Data::From(&self.data)
            }
            _ => Data::None,
        };
        let promise = match drives.perform(self.drive, &ask, data) {
            Ok(promise) => promise,
            Err(refusal) => return end(&mut response, Outcome::Failed(refusal.into()), room, 0),
        };
        let read = if ask.act == Act::Read { moved } else { 0 };
        if read > 0 {
            to.write_all(&self.data)?;
        }
        let written = (RESPONSE + read) as u32;
        let ticket = Ticket { ring, generation, chain, written };
        match drives.submit(self.drive, now, &ask, promise, ticket) {
            Err(refusal) => end(&mut response, Outcome::Failed(refusal.into()), room, 0),
            Ok(()) => {
                let unused = room.saturating_sub(moved as u32);
                response.write_all(&virtio_scsi::response(Outcome::Good, unused))?;
                Ok(Taken::Waits)
            }
        }
    }
}

impl Transport for Port {
    type Ticket = Ticket;

    /// Measured here, both ways together: 35 us at least, some 50 in the median
    /// (`crates/lab/tests/vhost_scsi.rs`).
    const LEAD: Nanos = Nanos::from_micros(35);

    fn watch<'a>(&'a self, descriptors: &mut Vec<PollFd<'a>>) {
        let Some(link) = &self.link else { return };
        descriptors.push(PollFd::new(&link.stream, PollFlags::IN));
        descriptors.extend(self.kicks.iter().map(|kick| PollFd::new(&*kick.event, PollFlags::IN)));
    }

    fn serve(&mut self, ready: &[PollFlags], now: Nanos, drives: &mut Drives<Ticket>) {
        let Some((said, kicked)) = ready.split_first() else { return };
        for (index, flags) in kicked.iter().enumerate() {
            let Some(kick) = self.kicks.get(index).filter(|_| !flags.is_empty()) else { continue };
            // Whatever it counts: what is there is taken.
            let _ = rustix::io::read(&*kick.event, &mut [0; 8]);
            self.take_requests(kick.ring, now, drives);
        }
        if !said.is_empty() {
            self.hear(drives);
        }
    }

    fn answer(&mut self, ticket: Ticket, refusal: Option<Refusal>, drives: &mut Drives<Ticket>) {
        let mut device = lock(&self.device);
        let Some((ring, memory)) = device.running(ticket.ring) else { return };
        if ring.generation != ticket.generation {
            return;
        }
        ring.in_flight -= 1;
        let (head, mut written) = (ticket.chain.head_index(), ticket.written);
        let mut tell = || -> Result<(), String> {
            if let Some(refusal) = refusal {
                let (.., mut response, to) =
                    parts(&ticket.chain, &memory).map_err(|error| error.to_string())?;
                let failed =
                    virtio_scsi::response(Outcome::Failed(refusal.into()), to.available_bytes() as u32);
                response.write_all(&failed).map_err(|error| error.to_string())?;
                written = RESPONSE as u32;
            }
            ring.give(head, written, &memory)?;
            ring.call(&memory)
        };
        if let Err(why) = tell() {
            ring.stop();
            let name = drives.name(self.drive);
            drives.complain(format!("queue {} of the disk `{name}` is served no more: {why}", ticket.ring));
        }
    }
}

/// What a request has: its bytes, the room for its response, the room for the disk's bytes.
fn parts<'a>(chain: &Chain, memory: &'a Memory) -> io::Result<(Reader<'a>, Writer<'a>, Writer<'a>)> {
    let from = chain.clone().reader(memory).map_err(io::Error::other)?;
    let mut response = chain.clone().writer(memory).map_err(io::Error::other)?;
    let to = response.split_at(RESPONSE).map_err(io::Error::other)?;
    Ok((from, response, to))
}

/// Answers at once, after so many bytes of data.
fn end(response: &mut Writer<'_>, outcome: Outcome, unused: u32, said: usize) -> io::Result<Taken> {
    response.write_all(&virtio_scsi::response(outcome, unused))?;
    Ok(Taken::Answered((RESPONSE + said) as u32))
}

/// Answers what came in on the control queue; how long the answer is.
fn control(chain: &Chain, memory: &Memory) -> io::Result<u32> {
    let mut from = chain.clone().reader(memory).map_err(io::Error::other)?;
    let mut request = vec![0; from.available_bytes().min(HEADER)];
    from.read_exact(&mut request)?;
    let answer = virtio_scsi::control(&request)
        .ok_or_else(|| io::Error::other("it holds no request to the controller"))?;
    let mut to = chain.clone().writer(memory).map_err(io::Error::other)?;
    to.write_all(&answer)?;
    Ok(answer.len() as u32)
}
