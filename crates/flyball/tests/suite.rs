//! All tests of the command line, one program: they share what is built and linked. `cargo xtask test` runs
//! each file in a process of its own; `cargo test -p flyball --test suite dry_run::` runs one by hand.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

mod bad_input;
mod book;
mod broken_files;
mod commands;
mod completions;
mod databases;
mod diagnose;
mod dry_run;
mod existing_server;
mod exports;
mod failing_calls;
mod foreign;
mod history;
mod hostile_place;
mod import;
mod inert_text;
mod install;
mod kept_notebooks;
mod kills;
mod lab_claims;
mod lab_clock;
mod lab_databases;
mod lab_drivers;
mod lab_events;
mod lab_faults;
mod lab_fidelity;
mod lab_governors;
mod lab_kills;
mod lab_layers;
mod lab_md_maps;
mod lab_power;
mod lab_shares;
mod lab_stacks;
mod lab_storage;
mod lab_tuning;
mod lasting;
mod life_of_a_run;
mod listing;
mod marks;
mod new_study;
mod newcomer;
mod page_in_a_browser;
mod recordings;
mod replay;
mod search;
mod settings_of_a_host;
mod shipped_studies;
mod sim;
mod tuning;
mod tutorial;
mod typed_commands;
mod versions;
mod watch;
mod watched_server;

#[test]
fn each_file_beside_this_one_is_part_of_it() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.filter_map(|name| name.to_str()?.strip_suffix(".rs").map(str::to_owned));
    let listed =
        |name: &String| name == "suite" || include_str!("suite.rs").contains(&format!("\nmod {name};\n"));
    let missing: Vec<String> = names.filter(|name| !listed(name)).collect();
    assert!(missing.is_empty(), "suite.rs lacks `mod {};`", missing.join(";`, `mod "));
}
