//! Writes every form of report of the test data into a folder, to be looked at:
//! `cargo run -p report --example page -- FOLDER`.
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used)]

#[path = "../tests/cases/mod.rs"]
mod cases;

use std::path::Path;

fn main() -> std::io::Result<()> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "target/report".into());
    std::fs::create_dir_all(&folder)?;
    let all = [
        ("ordinary", cases::ordinary()),
        ("sixty", cases::sixty()),
        ("lonely", cases::lonely()),
        ("empty", cases::empty()),
        ("zeros", cases::zeros()),
        ("hostile", cases::long::hostile()),
        ("long", cases::long::long_names()),
        ("lab", cases::virtual_machine::lab()),
        ("simulated", cases::simulated::simulated()),
    ];
    for (name, case) in &all {
        let r = case.report();
        for (ending, text) in [
            ("html", report::html(&r)),
            ("md", report::markdown(&r)),
            ("txt", report::text(&r)),
            ("csv", report::csv(&r)),
            ("json", report::json(&r)),
        ] {
            std::fs::write(Path::new(&folder).join(format!("{name}.{ending}")), text)?;
        }
    }
    let c = cases::compared();
    std::fs::write(Path::new(&folder).join("comparison.html"), report::comparison_html(&c))?;
    println!("{folder}");
    Ok(())
}
