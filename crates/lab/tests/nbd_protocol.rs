//! The disk server as clients meet it: what they store is there, what they do wrong closes their connection
//! alone.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

use disks::spec::MediumSpec;
use disks::{DiskSpec, LinkSpec};
use domain::rng::Seed;
use domain::units::Bytes;
use lab::disk_server::{Backing, DiskServer, DiskServerError, Reach, ServedDisk, ServedLink};
use proptest::prelude::*;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const SIZE: u64 = 64 << 20;

fn served(name: &str, model: &str, link: Option<&str>) -> ServedDisk {
    ServedDisk {
        name: name.to_owned(),
        spec: DiskSpec::shipped(model).unwrap(),
        size: Some(Bytes::new(SIZE)),
        link: link.map(str::to_owned),
        backing: Backing::Memory(Bytes::new(SIZE)),
    }
}

fn serve(folder: &Path) -> DiskServer {
    DiskServer::start(vec![served("fast", "nvme", None)], Vec::new(), Reach::Nbd(folder), 1.0, Seed(1))
        .unwrap()
}

fn connect(server: &DiskServer, name: &str) -> UnixStream {
    let stream = UnixStream::connect(server.socket(name).unwrap()).unwrap();
    // A server that does not answer fails the test, and does not hang it.
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

fn take<const N: usize>(stream: &mut UnixStream) -> [u8; N] {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"IHAVEOPT".to_vec();
    bytes.extend(number.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

/// By the oldest way, which has the shortest answer: size and flags.
fn shake_hands(stream: &mut UnixStream) -> (u64, u16) {
    assert_eq!(&take::<16>(stream), b"NBDMAGICIHAVEOPT");
    assert_eq!(take::<2>(stream), [0, 3]);
    stream.write_all(&3_u32.to_be_bytes()).unwrap();
    stream.write_all(&option(1, b"")).unwrap();
    (u64::from_be_bytes(take(stream)), u16::from_be_bytes(take(stream)))
}

fn request(flags: u16, kind: u16, cookie: u64, offset: u64, len: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(len.to_be_bytes());
    bytes
}

/// An answer's error and cookie.
fn answer(stream: &mut UnixStream) -> (u32, u64) {
    assert_eq!(u32::from_be_bytes(take(stream)), 0x6744_6698);
    (u32::from_be_bytes(take(stream)), u64::from_be_bytes(take(stream)))
}

const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const WRITE_ZEROES: u16 = 6;
const FUA: u16 = 1;

#[test]
fn what_is_written_is_read_by_the_next_client_too() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path());
    let data: Vec<u8> = (0..300_000_u32).map(|i| (i * 7 / 3) as u8).collect();
    let data = &data[..299_520];
    let mut stream = connect(&server, "fast");
    let (size, flags) = shake_hands(&mut stream);
    assert_eq!((size, flags), (SIZE, 0b110_1101));
    stream.write_all(&request(FUA, WRITE, 1, 4608, data.len() as u32)).unwrap();
    stream.write_all(data).unwrap();
    assert_eq!(answer(&mut stream), (0, 1));
    stream.write_all(&request(0, FLUSH, 2, 0, 0)).unwrap();
    assert_eq!(answer(&mut stream), (0, 2));
    stream.write_all(&request(0, TRIM, 3, 8192, 4096)).unwrap();
    assert_eq!(answer(&mut stream), (0, 3));
    stream.write_all(&request(0, WRITE_ZEROES, 4, 16384, 512)).unwrap();
    assert_eq!(answer(&mut stream), (0, 4));
    stream.write_all(&request(0, DISCONNECT, 5, 0, 0)).unwrap();
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);

    let mut stream = connect(&server, "fast");
    shake_hands(&mut stream);
    stream.write_all(&request(0, READ, 6, 4608, data.len() as u32)).unwrap();
    assert_eq!(answer(&mut stream), (0, 6));
    let mut got = vec![0; data.len()];
    stream.read_exact(&mut got).unwrap();
    let mut wanted = data.to_vec();
    wanted[8192 - 4608..][..4096].fill(0);
    wanted[16384 - 4608..][..512].fill(0);
    assert!(got == wanted);
    assert_eq!(server.take_complaints(), Vec::<String>::new());
    let account = server.take_account().remove(0);
    assert_eq!((account.disk.as_str(), account.requests), ("fast", 5));
    assert_eq!(server.take_account()[0].requests, 0);
}

#[test]
fn what_the_disk_has_no_blocks_for_is_refused_and_the_connection_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path());
    let mut stream = connect(&server, "fast");
    shake_hands(&mut stream);
    const INVALID: u32 = 22;
    const NO_SPACE: u32 = 28;
    for (flags, kind, offset, len, error) in [
        (0, READ, 0, 0, INVALID),
        (0, READ, SIZE, 512, INVALID),
        (0, READ, u64::MAX - 100, 512, INVALID),
        (0, READ, 0, u32::MAX, INVALID),
        (0, READ, 1, 512, INVALID),
        (0, READ, 0, 513, INVALID),
        (4, READ, 0, 512, INVALID),
        (0, TRIM, SIZE, 512, NO_SPACE),
        (0, WRITE_ZEROES, SIZE - 512, 1024, NO_SPACE),
        (0, 5, 0, 512, INVALID),
        (0, 7, 0, 512, INVALID),
        (0, 99, 0, 0, INVALID),
    ] {
        stream.write_all(&request(flags, kind, 7, offset, len)).unwrap();
        assert_eq!(answer(&mut stream), (error, 7), "{flags} {kind} {offset} {len}");
    }
    stream.write_all(&request(0, WRITE, 8, SIZE - 512, 1024)).unwrap();
    stream.write_all(&[1; 1024]).unwrap();
    assert_eq!(answer(&mut stream), (NO_SPACE, 8));
    stream.write_all(&request(0, READ, 9, SIZE - 512, 512)).unwrap();
    assert_eq!(answer(&mut stream), (0, 9));
    assert_eq!(take::<512>(&mut stream), [0; 512]);
}

/// The server still serves: a new client reads a block.
fn still_serves(server: &DiskServer) {
    let mut stream = connect(server, "fast");
    shake_hands(&mut stream);
    stream.write_all(&request(0, READ, 1, 0, 512)).unwrap();
    assert_eq!(answer(&mut stream), (0, 1));
    take::<512>(&mut stream);
}

/// Sends bytes and waits until the server closes.
fn send_and_wait(mut stream: UnixStream, bytes: &[u8]) {
    // The server may close before all is sent.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let _ = stream.read_to_end(&mut Vec::new());
}

#[test]
fn what_is_no_nbd_closes_its_connection_and_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path());
    let too_long = [&3_u32.to_be_bytes()[..], b"IHAVEOPT", &[0, 0, 0, 7], &u32::MAX.to_be_bytes()].concat();
    let unknown = [&3_u32.to_be_bytes()[..], &option(1, b"other")].concat();
    let many = [&3_u32.to_be_bytes()[..], &option(99, b"").repeat(100)].concat();
    for (bytes, text) in [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "client flags 0x47455420 are not those"),
        (vec![0, 0, 0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 1, 0, 0, 0, 0], "which is not its magic number"),
        (too_long, "option 7 has 4294967295 bytes of data"),
        (unknown, "there is no export `other`"),
        (many, "more than 64 options"),
    ] {
        send_and_wait(connect(&server, "fast"), &bytes);
        let complaints = server.take_complaints();
        assert!(complaints.iter().any(|complaint| complaint.contains(text)), "{text}: {complaints:?}");
    }
    for (bytes, text) in [
        (vec![0; 28], "a request begins with 0x00000000"),
        (request(0, WRITE, 1, 0, u32::MAX), "a write of 4294967295 bytes"),
    ] {
        let mut stream = connect(&server, "fast");
        shake_hands(&mut stream);
        send_and_wait(stream, &bytes);
        let complaints = server.take_complaints();
        assert!(complaints.iter().any(|complaint| complaint.contains(text)), "{text}: {complaints:?}");
    }
    still_serves(&server);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn no_bytes_stop_the_server(
        shaken in any::<bool>(),
        kinds in prop::collection::vec((0..9_u16, 0..3_u16, any::<u32>(), any::<u64>()), 0..6),
        garbage in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let server = serve(folder.path());
        let mut stream = connect(&server, "fast");
        let mut bytes = Vec::new();
        if shaken {
            shake_hands(&mut stream);
            for (kind, flags, len, offset) in kinds {
                bytes.extend(request(flags, kind, 1, offset % (2 * SIZE) / 512 * 512, len % (1 << 20) / 512 * 512));
            }
        }
        bytes.extend(garbage);
        send_and_wait(stream, &bytes);
        still_serves(&server);
    }
}

#[test]
fn many_at_once_are_each_answered_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path());
    let mut stream = connect(&server, "fast");
    shake_hands(&mut stream);
    // More than the server takes at a time: it goes on when others are answered.
    const MANY: u64 = 3_000;
    let mut writer = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        for cookie in 0..MANY {
            writer.write_all(&request(0, READ, cookie, cookie % 1000 * 4096, 4096)).unwrap();
        }
    });
    let mut seen = vec![false; MANY as usize];
    for _ in 0..MANY {
        let (error, cookie) = answer(&mut stream);
        take::<4096>(&mut stream);
        assert_eq!(error, 0);
        assert!(!std::mem::replace(&mut seen[cookie as usize], true), "{cookie} was answered twice");
    }
    sender.join().unwrap();
}

#[test]
fn a_server_that_is_dropped_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data");
    let on_file =
        ServedDisk { backing: Backing::File(file.clone()), ..served("a", "plain-7200", Some("bus")) };
    let bus = ServedLink { name: "bus".to_owned(), spec: LinkSpec::shipped("pci-33").unwrap() };
    let disks = vec![on_file, served("b", "plain-7200", Some("bus")), served("c", "nvme", None)];
    let server = DiskServer::start(disks, vec![bus], Reach::Nbd(folder.path()), 2.0, Seed(1)).unwrap();
    assert!(file.exists());
    let mut client = connect(&server, "b");
    shake_hands(&mut client);
    client.write_all(&request(0, READ, 1, 1 << 20, 4096)).unwrap();
    drop(server);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Writes, and waits for the answer.
fn write(stream: &mut UnixStream, flags: u16, offset: u64, data: &[u8]) {
    stream.write_all(&request(flags, WRITE, 1, offset, data.len() as u32)).unwrap();
    stream.write_all(data).unwrap();
    assert_eq!(answer(stream), (0, 1));
}

/// What a kept disk holds after this was flushed, that forced, and a third thing only written.
fn after_a_cut(folder: &Path, mut disk: ServedDisk, seed: u64) -> Vec<u8> {
    let file = folder.join(format!("{seed}.img"));
    // As if it were the first time.
    let _ = std::fs::remove_file(&file);
    disk.backing = Backing::Kept(file.clone());
    let server = DiskServer::start(vec![disk], Vec::new(), Reach::Nbd(folder), 1.0, Seed(seed)).unwrap();
    let mut stream = connect(&server, "fast");
    shake_hands(&mut stream);
    write(&mut stream, 0, 0, &[1; 8192]);
    stream.write_all(&request(0, FLUSH, 2, 0, 0)).unwrap();
    assert_eq!(answer(&mut stream), (0, 2));
    write(&mut stream, FUA, 8192, &[2; 8192]);
    write(&mut stream, 0, 16384, &[3; 65536]);
    let before = std::fs::read(&file).unwrap();
    let was_kept_at_once = before[16384..][..65536] == [3; 65536];
    assert!(was_kept_at_once || before[16384..].iter().all(|byte| *byte == 0), "a part was written early");
    drop(server);
    let after = std::fs::read(&file).unwrap();
    assert_eq!(after.len() as u64, SIZE);
    assert!(after[..8192] == [1; 8192] && after[8192..16384] == [2; 8192]);
    after[16384..][..65536].to_vec()
}

#[test]
fn a_power_cut_leaves_what_was_flushed_or_forced_and_of_the_rest_whole_sectors() {
    let folder = tempfile::tempdir().unwrap();
    let mut left = Vec::new();
    for seed in 0..4 {
        let after = after_a_cut(folder.path(), served("fast", "nvme", None), seed);
        assert_eq!(after, after_a_cut(folder.path(), served("fast", "nvme", None), seed), "seed {seed}");
        for sector in after.chunks(4096) {
            assert!(sector.iter().all(|byte| *byte == sector[0]), "a physical sector is torn");
            left.push(sector[0]);
        }
    }
    assert!(left.contains(&0) && left.contains(&3), "these seeds are to lose some, and to leave some");
}

#[test]
fn a_disk_without_a_write_cache_loses_nothing_that_it_answered() {
    let folder = tempfile::tempdir().unwrap();
    let mut disk = served("fast", "plain-7200", None);
    let MediumSpec::Hdd(hdd) = &mut disk.spec.medium else { panic!("it is a hard disk") };
    hdd.write_buffer = Bytes::new(0);
    assert_eq!(after_a_cut(folder.path(), disk, 1), [3; 65536]);
}

#[test]
fn a_kept_disk_is_found_by_the_next_server_and_refused_with_another_size() {
    let folder = tempfile::tempdir().unwrap();
    let disk =
        || ServedDisk { backing: Backing::Kept(folder.path().join("kept")), ..served("fast", "nvme", None) };
    let server =
        DiskServer::start(vec![disk()], Vec::new(), Reach::Nbd(folder.path()), 1.0, Seed(1)).unwrap();
    let mut stream = connect(&server, "fast");
    shake_hands(&mut stream);
    write(&mut stream, FUA, 4096, &[7; 512]);
    drop(server);
    let server =
        DiskServer::start(vec![disk()], Vec::new(), Reach::Nbd(folder.path()), 1.0, Seed(1)).unwrap();
    let mut stream = connect(&server, "fast");
    shake_hands(&mut stream);
    stream.write_all(&request(0, READ, 1, 4096, 512)).unwrap();
    assert_eq!(answer(&mut stream), (0, 1));
    assert_eq!(take::<512>(&mut stream), [7; 512]);
    drop(server);
    let other = ServedDisk { size: Some(Bytes::new(SIZE / 2)), ..disk() };
    let error = DiskServer::start(vec![other], Vec::new(), Reach::Nbd(folder.path()), 1.0, Seed(1))
        .unwrap_err()
        .to_string();
    assert!(error.contains("is a disk of 67108864 bytes, and one of 33554432 bytes is wanted"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "the kept disk alone is there");
}

#[test]
fn disks_that_do_not_fit_together_are_refused_and_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let start = |disks, dilation| {
        DiskServer::start(disks, Vec::new(), Reach::Nbd(folder.path()), dilation, Seed(1)).unwrap_err()
    };
    let twice = vec![served("a", "nvme", None), served("a", "nvme", None)];
    assert!(matches!(start(twice, 1.0), DiskServerError::Twice(name) if name == "a"));
    let link = vec![served("a", "nvme", None), served("b", "nvme", Some("bus"))];
    assert_eq!(start(link, 1.0).to_string(), "cannot serve the disk `b`: there is no link `bus`");
    assert!(matches!(start(vec![served("a", "nvme", None)], 0.5), DiskServerError::Dilation(_)));
    let large = ServedDisk { size: Some(Bytes::new(1 << 50)), ..served("a", "nvme", None) };
    assert!(start(vec![large], 1.0).to_string().contains("is more than the model's"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Runs a tool, where it is installed; where not, the test is skipped and says so.
fn tool(program: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(program).args(arguments).output() {
        Err(error) => {
            println!("skipped: cannot start {program}: {error}");
            None
        }
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
            Some(text)
        }
    }
}

#[test]
fn nbdinfo_is_told_what_the_disk_is() {
    let folder = tempfile::tempdir().unwrap();
    let disk = served("slow", "wd-green-1tb", None);
    let server = DiskServer::start(vec![disk], Vec::new(), Reach::Nbd(folder.path()), 1.0, Seed(1)).unwrap();
    let uri = format!("nbd+unix:///slow?socket={}", server.socket("slow").unwrap().display());
    let Some(text) = tool("nbdinfo", &["--list", &uri]) else { return };
    for told in ["export=\"slow\"", "67108864", "is_rotational: true", "can_fua: true", "can_trim: false"] {
        assert!(text.contains(told), "{told}: {text}");
    }
    for told in ["can_multi_conn: false", "block_size_minimum: 512", "block_size_maximum: 33554432"] {
        assert!(text.contains(told), "{told}: {text}");
    }
    assert_eq!(server.take_complaints(), Vec::<String>::new());
}

#[test]
fn qemu_io_writes_and_reads_back() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path());
    let uri = format!("nbd+unix:///?socket={}", server.socket("fast").unwrap().display());
    let commands = [
        "write -P 7 1M 2M",
        "write -f -P 9 3M 4k",
        "flush",
        "discard 2M 64k",
        "write -z 1M 64k",
        "read -P 0 1M 64k",
        "read -P 7 1088k 900k",
        "read -P 9 3M 4k",
        "read -P 0 2M 64k",
    ];
    let mut arguments = vec!["-f", "raw"];
    commands.iter().for_each(|command| arguments.extend(["-c", command]));
    arguments.push(&uri);
    let Some(text) = tool("qemu-io", &arguments) else { return };
    assert!(!text.contains("failed"), "{text}");
    assert_eq!(server.take_complaints(), Vec::<String>::new());
}
