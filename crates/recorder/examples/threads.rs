//! Load for `benches/recorder`: `threads COUNT [PROCESSES]` keeps so many threads alive, in so many
//! processes, each of which works for a moment once a second. Ends with its standard input.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Enough stack for a thread that sleeps.
const STACK_BYTES: usize = 16 << 10;

/// What each thread works a second.
const WORK: Duration = Duration::from_micros(2);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse::<u64>());
    let count = numbers.next().ok_or("usage: threads COUNT [PROCESSES]")??;
    let processes = numbers.next().transpose()?.unwrap_or(1);
    let mut children = Vec::new();
    for _ in 1..processes {
        let mut child = Command::new(std::env::current_exe()?);
        children.push(child.arg((count / processes).to_string()).stdin(Stdio::piped()).spawn()?);
    }
    for number in 0..(count / processes).saturating_sub(1) {
        std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || work(number))?;
    }
    std::io::stdin().read_to_end(&mut Vec::new())?;
    for mut child in children {
        drop(child.stdin.take());
        child.wait()?;
    }
    Ok(())
}

fn work(number: u64) {
    // Spread over the second.
    std::thread::sleep(Duration::from_micros(number * 1_000_003 % 1_000_000));
    loop {
        let start = Instant::now();
        while start.elapsed() < WORK {}
        std::thread::sleep(Duration::from_secs(1));
    }
}
