//! `[sim]`: the machine that the simulation runs a study on.

use super::node::Node;
use super::words;
use domain::study::Sim;

pub(super) fn read(node: &Node) -> Option<Sim> {
    let section = node.section()?;
    section.only(&["machine"]);
    let machine = section.get("machine").map_or(Some(None), |node| words(&node).map(Some));
    Some(Sim { machine: machine? })
}
