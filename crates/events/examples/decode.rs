//! Decodes a recording of events and prints what CPU time that took, or what it says: the driver of
//! `benches/events`.
//!
//! `decode FILE` prints the facts; `decode FILE ROUNDS` prints, over so many rounds, the events and the
//! seconds of CPU time that typed events and facts took.

#![allow(clippy::print_stdout, reason = "it is a program")]

use events::{Facts, Tables, decode};
use std::error::Error;
use std::fs::{self, File};
use std::io::BufReader;

/// Of this process, by its own `schedstat`.
fn cpu_seconds() -> Result<f64, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/self/schedstat")?;
    let ns: f64 = text.split_whitespace().next().ok_or("an empty schedstat")?.parse()?;
    Ok(ns / 1e9)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let path = words.next().ok_or("usage: decode FILE [ROUNDS]")?;
    let open = || Ok(BufReader::with_capacity(1 << 20, File::open(&path)?));
    let Some(rounds) = words.next().map(|word| word.parse::<u32>()).transpose()? else {
        println!("{:#?}", Facts::read(open)?);
        return Ok(());
    };
    let (mut events, mut lost) = (0_u64, 0);
    let begun = cpu_seconds()?;
    for _ in 0..rounds {
        let tables = Tables::read(open()?)?;
        decode(open()?, &tables, |_| events += 1)?;
    }
    let decoded = cpu_seconds()?;
    for _ in 0..rounds {
        lost = Facts::read(open)?.all_lost();
    }
    let known = cpu_seconds()?;
    println!("events {events} lost {lost} decode_s {:.6} facts_s {:.6}", decoded - begun, known - decoded);
    Ok(())
}
