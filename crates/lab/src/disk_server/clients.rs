//! A disk's NBD clients: a socket that listens, and a connection for each.

use super::connection::{Arrived, Connection};
use super::model::{Act, Data, DiskRequest, Drives, MAX_BYTES, Refusal};
use super::nbd::{self, Export};
use super::serving::Transport;
use super::store::Promise;
use domain::time::Nanos;
use rustix::event::{PollFd, PollFlags};
use std::io::ErrorKind;
use std::os::unix::net::UnixListener;

/// Connections of one disk at a time: a program that works has one, a tool that looks a second.
const MAX_CONNECTIONS: usize = 8;

/// A disk's clients.
#[derive(Debug)]
pub(super) struct Clients {
    /// The disk's number in its group.
    drive: usize,
    export: Export,
    listener: UnixListener,
    clients: Vec<Client>,
    next_client: u64,
}

#[derive(Debug)]
struct Client {
    /// Never used again for another, so that an answer finds its own client or none.
    number: u64,
    connection: Connection,
}

/// An answer that is ready, and whose it is.
#[derive(Debug)]
pub(super) struct Ticket {
    client: u64,
    answer: Vec<u8>,
}

impl Clients {
    pub(super) const fn new(drive: usize, export: Export, listener: UnixListener) -> Self {
        Self { drive, export, listener, clients: Vec::new(), next_client: 0 }
    }

    fn place(&self, number: u64) -> Option<usize> {
        self.clients.iter().position(|client| client.number == number)
    }

    /// Sends what a client's socket takes; drops the client where it is gone.
    fn send(&mut self, place: usize, drives: &Drives<Ticket>) {
        match self.clients[place].connection.send() {
            Ok(()) => {}
            Err(error) if has_left(&error) => drop(self.clients.remove(place)),
            Err(error) => self.drop_client(place, &format!("it takes no answers: {error}"), drives),
        }
    }

    /// A client has bytes, or takes them again.
    fn receive(&mut self, number: u64, now: Nanos, drives: &mut Drives<Ticket>) {
        let Some(place) = self.place(number) else { return };
        if self.clients[place].connection.wants_input() {
            match self.clients[place].connection.receive() {
                Ok(true) => {}
                // Closing without a goodbye is how many clients leave.
                Ok(false) => return drop(self.clients.remove(place)),
                Err(error) if has_left(&error) => return drop(self.clients.remove(place)),
                Err(error) => return self.drop_client(place, &error.to_string(), drives),
            }
        }
        self.take_requests(place, now, drives);
    }

    /// Takes requests that were left in a client's input while it had too many in flight.
    fn go_on(&mut self, now: Nanos, drives: &mut Drives<Ticket>) {
        let able = |client: &&Client| client.connection.may_go_on();
        let numbers: Vec<u64> = self.clients.iter().filter(able).map(|client| client.number).collect();
        for number in numbers {
            if let Some(place) = self.place(number) {
                self.take_requests(place, now, drives);
            }
        }
    }

    fn take_requests(&mut self, place: usize, now: Nanos, drives: &mut Drives<Ticket>) {
        loop {
            match self.clients[place].connection.next(now, &self.export) {
                Ok(Some(arrived)) => self.take(place, &arrived, drives),
                Ok(None) => break,
                Err(text) => return self.drop_client(place, &text, drives),
            }
        }
        self.send(place, drives);
    }

    /// Takes one request: its data now, its time from the model.
    fn take(&mut self, place: usize, arrived: &Arrived, drives: &mut Drives<Ticket>) {
        let header = &arrived.header;
        let connection = &mut self.clients[place].connection;
        let taken = perform(self.drive, connection, arrived, drives).and_then(|(ask, answer, promise)| {
            let held = answer.len();
            let ticket = Ticket { client: self.clients[place].number, answer };
            drives.submit(self.drive, arrived.at, &ask, promise, ticket)?;
            Ok(held)
        });
        let connection = &mut self.clients[place].connection;
        match taken {
            Ok(held) => connection.hold(held),
            Err(refusal) => connection.refuse(header.refused(refusal).to_vec()),
        }
    }

    fn accept(&mut self, drives: &Drives<Ticket>) {
        // Nobody waiting is an error of `accept` too.
        let Ok((stream, _)) = self.listener.accept() else { return };
        let there = self.clients.len();
        if there >= MAX_CONNECTIONS || stream.set_nonblocking(true).is_err() {
            let name = drives.name(self.drive);
            return drives
                .complain(format!("a client of the disk `{name}` was turned away: it has {there} already"));
        }
        let number = self.next_client;
        self.next_client += 1;
        self.clients.push(Client { number, connection: Connection::new(stream) });
        self.send(there, drives);
    }

    fn drop_client(&mut self, place: usize, why: &str, drives: &Drives<Ticket>) {
        // Before it is closed: who sees that may ask why.
        let name = drives.name(self.drive);
        drives.complain(format!("closed a connection to the disk `{name}`: {why}"));
        self.clients.remove(place);
    }
}

impl Transport for Clients {
    type Ticket = Ticket;

    /// Measured here: 15 to 40 us.
    const LEAD: Nanos = Nanos::from_micros(25);

    fn watch<'a>(&'a self, descriptors: &mut Vec<PollFd<'a>>) {
        descriptors.push(PollFd::new(&self.listener, PollFlags::IN));
        descriptors.extend(self.clients.iter().map(|client| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, client.connection.wants_input());
            flags.set(PollFlags::OUT, client.connection.has_output());
            PollFd::new(client.connection.stream(), flags)
        }));
    }

    fn serve(&mut self, ready: &[PollFlags], now: Nanos, drives: &mut Drives<Ticket>) {
        let mut numbers: Vec<u64> = Vec::new();
        // An answer that could not be sent has taken its client away since, and then what is ready is no
        // longer known for those behind it: they are asked, and say that there is nothing.
        let all = ready.len() != self.clients.len() + 1;
        for (index, client) in self.clients.iter().enumerate() {
            if all || !ready[index + 1].is_empty() {
                numbers.push(client.number);
            }
        }
        for number in numbers {
            self.receive(number, now, drives);
        }
        self.go_on(now, drives);
        if ready.first().is_some_and(|knock| !knock.is_empty()) {
            self.accept(drives);
        }
        self.clients.retain(|client| !client.connection.is_over());
    }

    fn answer(&mut self, mut ticket: Ticket, refusal: Option<Refusal>, drives: &mut Drives<Ticket>) {
        if let Some(refusal) = refusal {
            ticket.answer = nbd::refused(&ticket.answer, refusal).to_vec();
        }
        if let Some(place) = self.place(ticket.client) {
            self.clients[place].connection.answer(ticket.answer);
            self.send(place, drives);
        }
    }
}

/// Does to the data what is asked: the answer, and what it promises.
fn perform(
    drive: usize,
    connection: &mut Connection,
    arrived: &Arrived,
    drives: &mut Drives<Ticket>,
) -> Result<(DiskRequest, Vec<u8>, Promise), Refusal> {
    let header = &arrived.header;
    let ask = header.meaning().ok_or(Refusal::Invalid)?;
    if ask.act == Act::Read && header.len > MAX_BYTES {
        return Err(Refusal::Invalid);
    }
    let mut answer = connection.memory();
    answer.extend(nbd::done(header.cookie));
    let data = match ask.act {
        Act::Read => {
            answer.resize(nbd::ANSWER + header.len as usize, 0);
            Data::To(&mut answer[nbd::ANSWER..])
        }
        Act::Write => Data::From(connection.data(arrived)),
        _ => Data::None,
    };
    let promise = drives.perform(drive, &ask, data)?;
    Ok((ask, answer, promise))
}

/// Whether a socket's error says no more than that the client is gone: nbdinfo leaves without waiting for the
/// answer.
fn has_left(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}
