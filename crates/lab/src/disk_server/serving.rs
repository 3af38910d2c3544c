//! One thread: the disks of one link (or one disk alone), their model, and their clients.
//!
//! It waits for the next byte of a client or the model's next event, whichever is first, and never for one thing
//! alone. Waits end within a few tens of microseconds of their time (timer slack 1 ns); the last [`SPIN`] of a wait is
//! spent asking again and again.

use super::clock::{self, Scale};
use super::connection::{Arrived, Connection};
use super::nbd::{self, Ask, Export, Header, Refusal};
use super::store::{Promise, Store};
use super::{Complaints, MOST_COMPLAINTS, lock};
use domain::lab::DiskService;
use domain::time::Nanos;
use domain::units::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use sim::disk::{Bank, Completed, Op, Request};
use std::io::ErrorKind;
use std::num::NonZeroU64;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// How long before its end a wait becomes asking again and again.
const SPIN: Nanos = Nanos::from_micros(20);

/// How much earlier than it is due an answer begins to be sent: what sending it and waking the client takes at least
/// (measured here: 15 to 40 us). A client that answers at once is then back when the model expects it.
const LEAD: Nanos = Nanos::from_micros(25);

/// Connections of one disk at a time: QEMU has one, a tool that looks a second.
const MOST_CONNECTIONS: usize = 8;

/// A disk of a group.
#[derive(Debug)]
pub(super) struct Seat {
    export: Export,
    listener: UnixListener,
    store: Store,
    account: Arc<Mutex<DiskService>>,
}

impl Seat {
    pub(super) const fn new(
        export: Export,
        listener: UnixListener,
        store: Store,
        account: Arc<Mutex<DiskService>>,
    ) -> Self {
        Self { export, listener, store, account }
    }
}

/// A client of a disk.
#[derive(Debug)]
struct Client {
    /// Never used again for another, so that an answer finds its own client or none.
    number: u64,
    seat: usize,
    connection: Connection,
}

/// A request that the model has, and its answer, which is ready.
#[derive(Debug)]
struct Pending {
    client: u64,
    answer: Vec<u8>,
    /// Kept at the moment of the answer, and not before: until then power may fail.
    promise: Promise,
}

#[derive(Debug)]
pub(super) struct Group {
    bank: Bank,
    seats: Vec<Seat>,
    scale: Scale,
    stop: Arc<AtomicBool>,
    wake: Arc<OwnedFd>,
    complaints: Complaints,
    clients: Vec<Client>,
    next_client: u64,
    /// By the request's number in the model.
    pending: Vec<Option<Pending>>,
    free: Vec<usize>,
    done: Vec<Completed>,
}

impl Group {
    pub(super) fn new(
        bank: Bank,
        seats: Vec<Seat>,
        scale: Scale,
        stop: Arc<AtomicBool>,
        wake: Arc<OwnedFd>,
        complaints: Complaints,
    ) -> Self {
        Self {
            bank,
            seats,
            scale,
            stop,
            wake,
            complaints,
            clients: Vec::new(),
            next_client: 0,
            pending: Vec::new(),
            free: Vec::new(),
            done: Vec::new(),
        }
    }

    /// Serves until it is told to stop.
    pub(super) fn run(mut self) {
        // Where this is refused, waits end some 50 us later: the account will tell.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut ready = Vec::new();
        while !self.stop.load(Ordering::Acquire) {
            let knocks = self.wait(&mut ready);
            self.finish();
            let now = clock::now();
            for number in ready.drain(..) {
                self.serve(number, now);
            }
            self.go_on(now);
            if knocks {
                self.accept();
            }
            self.clients.retain(|client| !client.connection.is_over());
        }
        // Its machine has flushed what it wanted to keep, or was killed.
        self.seats.iter_mut().for_each(|seat| seat.store.cut_power());
    }

    /// Waits for bytes or for the model. Adds the numbers of the clients with bytes; whether there are new clients.
    fn wait(&mut self, ready: &mut Vec<u64>) -> bool {
        let mut descriptors = vec![PollFd::new(&self.wake, PollFlags::IN)];
        descriptors.extend(self.seats.iter().map(|seat| PollFd::new(&seat.listener, PollFlags::IN)));
        let first_client = descriptors.len();
        descriptors.extend(self.clients.iter().map(|client| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, client.connection.wants_input());
            flags.set(PollFlags::OUT, client.connection.has_output());
            PollFd::new(client.connection.stream(), flags)
        }));
        let deadline = self.bank.next_event().map(|at| self.scale.host(at).saturating_sub(LEAD));
        loop {
            let left = deadline.map(|deadline| deadline.saturating_sub(clock::now()));
            let timeout = left.map(|left| timespec(left.saturating_sub(SPIN)));
            // An interruption is a short wait; any other error is our own bug, and waiting would not end it.
            let woken = poll(&mut descriptors, timeout.as_ref()).unwrap_or(0);
            let due = deadline.is_some_and(|deadline| clock::now() >= deadline);
            if woken > 0 || due || self.stop.load(Ordering::Acquire) {
                break;
            }
        }
        let polled = descriptors[first_client..].iter().zip(&self.clients);
        let with_news = polled.filter(|(descriptor, _)| !descriptor.revents().is_empty());
        ready.extend(with_news.map(|(_, client)| client.number));
        descriptors[1..first_client].iter().any(|listener| !listener.revents().is_empty())
    }

    /// Answers what is done by now.
    fn finish(&mut self) {
        let mut done = std::mem::take(&mut self.done);
        self.bank.advance(self.scale.model(clock::now() + LEAD), &mut done);
        for completed in done.drain(..) {
            self.answer(&completed);
        }
        self.done = done;
    }

    fn answer(&mut self, completed: &Completed) {
        let index = completed.id as usize;
        let Some(mut pending) = self.pending[index].take() else {
            unreachable!("the model finished request {index} twice");
        };
        self.free.push(index);
        self.count(completed);
        if let Err(error) = self.seats[completed.disk].store.keep(pending.promise) {
            let refusal = self.failed(completed.disk, &error);
            pending.answer = nbd::refused(&pending.answer, refusal).to_vec();
        }
        // A client that has left is not answered.
        if let Some(place) = self.clients.iter().position(|client| client.number == pending.client) {
            self.clients[place].connection.answer(pending.answer);
            self.send(place);
        }
        self.count_lateness(completed);
    }

    /// Before the answer is sent: who has it may ask for the account.
    fn count(&self, completed: &Completed) {
        let mut account = lock(&self.seats[completed.disk].account);
        account.requests += 1;
        account.modelled = account.modelled + completed.at.saturating_sub(completed.submitted);
    }

    /// After the answer was sent, for sending is a part of it.
    fn count_lateness(&self, completed: &Completed) {
        let deadline = self.scale.host(completed.at);
        let late = self.scale.span(clock::now().saturating_sub(deadline));
        let mut account = lock(&self.seats[completed.disk].account);
        account.late = account.late + late;
        account.latest = account.latest.max(late);
    }

    /// Sends what a client's socket takes; drops the client where it is gone.
    fn send(&mut self, place: usize) {
        match self.clients[place].connection.send() {
            Ok(()) => {}
            Err(error) if has_left(&error) => drop(self.clients.remove(place)),
            Err(error) => self.drop_client(place, &format!("it takes no answers: {error}")),
        }
    }

    /// A client has bytes, or takes them again.
    fn serve(&mut self, number: u64, now: Nanos) {
        let Some(place) = self.clients.iter().position(|client| client.number == number) else { return };
        if self.clients[place].connection.wants_input() {
            match self.clients[place].connection.receive() {
                Ok(true) => {}
                // Closing without a goodbye is how many clients leave.
                Ok(false) => return drop(self.clients.remove(place)),
                Err(error) if has_left(&error) => return drop(self.clients.remove(place)),
                Err(error) => return self.drop_client(place, &error.to_string()),
            }
        }
        self.take_requests(place, now);
    }

    /// Takes requests that were left in a client's input while it had too many in flight.
    fn go_on(&mut self, now: Nanos) {
        let able = |client: &&Client| client.connection.may_go_on();
        let numbers: Vec<u64> = self.clients.iter().filter(able).map(|client| client.number).collect();
        for number in numbers {
            let place = self.clients.iter().position(|client| client.number == number);
            if let Some(place) = place {
                self.take_requests(place, now);
            }
        }
    }

    fn take_requests(&mut self, place: usize, now: Nanos) {
        loop {
            let client = &mut self.clients[place];
            let export = &self.seats[client.seat].export;
            match client.connection.next(now, export) {
                Ok(Some(arrived)) => self.take(place, &arrived),
                Ok(None) => break,
                Err(text) => return self.drop_client(place, &text),
            }
        }
        self.send(place);
    }

    /// Takes one request: its data now, its time from the model.
    fn take(&mut self, place: usize, arrived: &Arrived) {
        let header = &arrived.header;
        let (answer, promise) = match self.perform(place, arrived) {
            Ok(performed) => performed,
            Err(refusal) => return self.refuse(place, header, refusal),
        };
        let client = self.clients[place].number;
        let index = self.free.pop().unwrap_or_else(|| {
            self.pending.push(None);
            self.pending.len() - 1
        });
        let request = model_request(index as u64, header);
        let (seat, at) = (self.clients[place].seat, self.scale.model(arrived.at));
        if self.bank.submit(at, seat, request).is_err() {
            self.free.push(index);
            return self.refuse(place, header, Refusal::Invalid);
        }
        self.clients[place].connection.hold(&answer);
        self.pending[index] = Some(Pending { client, answer, promise });
    }

    fn refuse(&mut self, place: usize, header: &Header, refusal: Refusal) {
        let answer = nbd::answer(header.cookie, Some(refusal)).to_vec();
        self.clients[place].connection.refuse(answer);
    }

    /// Does to the data what is asked; the answer, and what it promises.
    fn perform(&mut self, place: usize, arrived: &Arrived) -> Result<(Vec<u8>, Promise), Refusal> {
        let header = &arrived.header;
        let number = self.clients[place].seat;
        let seat = &mut self.seats[number];
        check(header, &seat.export)?;
        let mut answer = self.clients[place].connection.memory();
        answer.extend(nbd::answer(header.cookie, None));
        let (offset, len) = (header.offset, u64::from(header.len));
        let performed = match header.ask {
            Ask::Read => {
                answer.resize(nbd::ANSWER + header.len as usize, 0);
                seat.store.read(offset, &mut answer[nbd::ANSWER..])
            }
            Ask::Write => seat.store.write(offset, self.clients[place].connection.data(arrived)),
            Ask::Trim | Ask::WriteZeroes => seat.store.zero(offset, len),
            Ask::Flush | Ask::Disconnect | Ask::Unknown(_) => Ok(()),
        };
        let promise = match header.ask {
            Ask::Flush => seat.store.receive_flush(),
            Ask::Write if header.fua || !seat.export.has_write_cache => Promise::Range { offset, len },
            _ => Promise::Nothing,
        };
        match performed {
            Ok(()) => Ok((answer, promise)),
            Err(error) => Err(self.failed(number, &error)),
        }
    }

    fn failed(&self, seat: usize, error: &std::io::Error) -> Refusal {
        let name = &self.seats[seat].export.name;
        self.complain(format!("the data of the disk `{name}` has no place: {error}"));
        match error.kind() {
            ErrorKind::StorageFull => Refusal::NoSpace,
            _ => Refusal::Io,
        }
    }

    fn accept(&mut self) {
        for seat in 0..self.seats.len() {
            // Nobody at the door is an error of `accept` too.
            let Ok((stream, _)) = self.seats[seat].listener.accept() else { continue };
            let there = self.clients.iter().filter(|client| client.seat == seat).count();
            if there >= MOST_CONNECTIONS || stream.set_nonblocking(true).is_err() {
                let name = &self.seats[seat].export.name;
                self.complain(format!(
                    "a client of the disk `{name}` was turned away: it has {there} already"
                ));
                continue;
            }
            let number = self.next_client;
            self.next_client += 1;
            self.clients.push(Client { number, seat, connection: Connection::new(stream) });
            self.send(self.clients.len() - 1);
        }
    }

    fn drop_client(&mut self, place: usize, why: &str) {
        let client = self.clients.remove(place);
        let name = &self.seats[client.seat].export.name;
        self.complain(format!("closed a connection to the disk `{name}`: {why}"));
    }

    fn complain(&self, text: String) {
        let mut complaints = lock(&self.complaints);
        if complaints.len() == MOST_COMPLAINTS {
            complaints.pop_front();
        }
        complaints.push_back(text);
    }
}

/// Whether a socket's error says no more than that the client is gone: nbdinfo leaves without waiting for the answer.
fn has_left(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

/// What of a request can be refused before anything is done.
fn check(header: &Header, export: &Export) -> Result<(), Refusal> {
    let writes = matches!(header.ask, Ask::Write | Ask::WriteZeroes | Ask::Trim);
    let end = header.offset.checked_add(u64::from(header.len));
    match header.ask {
        Ask::Unknown(_) => Err(Refusal::Invalid),
        Ask::Flush => Ok(()),
        _ if header.odd_flags != 0 || header.len == 0 => Err(Refusal::Invalid),
        Ask::Read if header.len > nbd::MOST_BYTES => Err(Refusal::Invalid),
        _ if end.is_none_or(|end| end > export.size) => {
            Err(if writes { Refusal::NoSpace } else { Refusal::Invalid })
        }
        _ if !export.is_aligned(header.offset, header.len) => Err(Refusal::Invalid),
        _ => Ok(()),
    }
}

fn model_request(id: u64, header: &Header) -> Request {
    let op = match header.ask {
        Ask::Read => Op::Read,
        Ask::Write | Ask::WriteZeroes => Op::Write,
        Ask::Trim => Op::Discard,
        Ask::Flush | Ask::Disconnect | Ask::Unknown(_) => Op::Flush,
    };
    Request {
        id,
        op,
        fua: header.fua,
        offset: Bytes::new(header.offset),
        len: Bytes::new(u64::from(header.len)),
    }
}

fn timespec(span: Nanos) -> Timespec {
    let ns = span.get();
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}
