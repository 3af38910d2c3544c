//! `[target] server`: a server that is somebody's, and what a study may not ask of it.

use super::check::{below, factor_node, workload_node};
use super::node::{Node, Section};
use super::path_of;
use domain::Study;
use domain::database::{Address, ExistingServer, Kind, check_name};
use domain::plan::Cell;
use domain::study::{Target, Workload};
use std::collections::BTreeSet;
use workloads::server::PREFIX;

/// The keys that say how to reach it.
pub(super) const KEYS: [&str; 3] = ["user", "password_file", "database"];

pub(super) fn read(node: &Node, target: &Section) -> Option<Target> {
    let address = node.text().and_then(|text| said(node, Address::parse(text)));
    let name = |key: &str| match target.get(key) {
        None => Some(None),
        Some(node) => {
            node.text().and_then(|text| said(&node, check_name(text).map(|()| Some(text.to_owned()))))
        }
    };
    let (user, database) = (name("user"), name("database"));
    let password_file = match target.get("password_file") {
        None => Some(None),
        Some(node) => path_of(&node, "", "/root/flyball.password").map(Some),
    };
    let server =
        ExistingServer { address: address?, user: user?, password_file: password_file?, database: database? };
    Some(Target::Server(server))
}

fn said<T>(node: &Node, read: Result<T, String>) -> Option<T> {
    read.map_err(|problem| node.refuse(problem)).ok()
}

/// Notes what cannot be asked of a server that is there: it is not configured, and it is of one kind.
pub(super) fn check(study: &Study, cells: Option<&[Cell]>, root: &Section) {
    let Target::Server(server) = &study.target else { return };
    for workload in &study.workloads {
        for option in workload.options.keys().filter(|option| of_flyballs_own(option)) {
            below(workload_node(root, &workload.name), &["options", option]).refuse_key(NOT_CONFIGURED);
        }
    }
    for factor in &study.factors {
        let mut options = factor.levels.iter().flat_map(|level| level.options.keys());
        if options.any(|option| of_flyballs_own(option)) {
            factor_node(root, &factor.name).refuse_key(NOT_CONFIGURED);
        }
    }
    let asked: BTreeSet<Kind> =
        cells.unwrap_or_default().iter().filter_map(|cell| kind(&cell.workload)).collect();
    let Some(node) = root.get("target") else { return };
    let node = |key: &str| below(node, &[key]);
    match asked.into_iter().collect::<Vec<Kind>>()[..] {
        [Kind::MariaDb] if server.database.is_some() => node("database").refuse_key(
            "is where PostgreSQL's clients connect first, and no workload asks PostgreSQL; take it out",
        ),
        [_, _, ..] => node("server").refuse_key(
            "is one server, and the workloads ask MariaDB and PostgreSQL; ask one of them (`server = \"postgresql\"` in sysbench's `options`)",
        ),
        [] if cells.is_some() && !study.workloads.iter().any(asks) => node("server").refuse_key(
            "is asked by no workload; write one with `tool = \"sysbench\"` or `tool = \"pgbench\"`",
        ),
        _ => {}
    }
}

const NOT_CONFIGURED: &str = "is for a server of Flyball's own; that of `[target] server` runs already, and is neither configured nor moved; \
     take it out, or take `[target]` out";

/// Options that say how a server is set up, or where its clients are.
fn of_flyballs_own(option: &str) -> bool {
    option.starts_with(PREFIX) || ["network_delay", "network_bandwidth"].contains(&option)
}

fn asks(workload: &Workload) -> bool {
    workloads::of(&workload.tool).needs() == workloads::Needs::Server
}

/// Which kind a workload asks, once its options are whole.
fn kind(workload: &Workload) -> Option<Kind> {
    Some(workloads::of(&workload.tool).server(&workload.options)?.ok()?.server.kind)
}
