//! Serves one modelled disk until its standard input ends: `serve_disk MODEL DILATION FOLDER`. For trying
//! clients by hand.
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use disks::DiskSpec;
use domain::rng::Seed;
use domain::units::Bytes;
use lab::disk_server::{Backing, DiskServer, Reach, ServedDisk};
use std::error::Error;
use std::io::Read;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, dilation, folder] = arguments.as_slice() else {
        return Err("give a model, a time dilation and a folder for the socket".into());
    };
    let disk = ServedDisk {
        name: "disk".to_owned(),
        spec: match DiskSpec::shipped(model) {
            Some(spec) => spec,
            None => DiskSpec::parse(&std::fs::read_to_string(model)?)?,
        },
        size: None,
        link: None,
        backing: Backing::Memory(Bytes::from_mib(8192)),
    };
    let server =
        DiskServer::start(vec![disk], Vec::new(), Reach::Nbd(Path::new(folder)), dilation.parse()?, Seed(1))?;
    println!("nbd+unix:///?socket={}", server.socket("disk").ok_or("the disk has no socket")?.display());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    println!("{:#?}\n{}", server.take_account(), server.take_complaints().join("\n"));
    Ok(())
}
