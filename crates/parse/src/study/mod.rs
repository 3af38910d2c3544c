//! Study files: TOML to a [`Study`], strictly.
//!
//! Everything that can be known without the machine is checked here, and everything that is wrong is said at
//! once, with line, column and what to do: a study may run for hours, and must not fail in its last cell for
//! a spelling mistake. docs/STUDY-FORMAT.md is the reference of the format.
//!
//! Not a goal: whether the machine has a setting, a tool or the room; the runner says that.

mod beside;
mod check;
mod error;
mod factor;
mod in_lab;
mod lab;
mod measure;
mod node;
mod options;
mod page;
mod published;
mod server;
mod settings;
mod sim;
mod stack;
mod workload;

pub use error::{StudyError, StudyErrors};

use domain::Study;
use domain::lab::Lab;
use domain::stack::StackSpec;
use domain::study::{FORMAT_VERSION, Sim, Target};
use domain::units::Bytes;
use error::Problems;
use node::{Node, Section};
use toml::Spanned;
use toml::de::DeTable;

/// A bound on a study file. A long one has some kilobytes.
const MAX_STUDY: Bytes = Bytes::from_mib(1);

/// A bound on the target: larger files take hours to fill.
const MAX_TARGET: Bytes = Bytes::from_mib(1 << 20);

/// A bound on workloads and on factors: already few of them multiply to more cells than anybody measures.
const MAX_CHILDREN: usize = 64;

/// A loop device drops what does not fill its last page.
const LOOP_MULTIPLE: Bytes = Bytes::from_kib(4);

/// A bound on names, which become parts of file names and columns of tables.
const MAX_NAME_CHARS: usize = 64;

/// The keys of a study.
const KEYS: [&str; 15] = [
    "flyball",
    "name",
    "question",
    "primary",
    "target",
    "stack",
    "workload",
    "beside",
    "factor",
    "settings",
    "measure",
    "lab",
    "sim",
    "published",
    "page",
];

/// Reads a study file, as every machine but the lab has it. What the lab has otherwise is checked all the
/// same.
///
/// # Errors
/// Everything that is wrong with it; see [`StudyErrors`].
pub fn parse(text: &str) -> Result<Study, StudyErrors> {
    Ok(parse_both(text)?.0)
}

/// The same as the lab has it: with what `[lab]` changes.
///
/// # Errors
/// Likewise.
pub fn parse_for_lab(text: &str) -> Result<Study, StudyErrors> {
    let (study, in_the_lab) = parse_both(text)?;
    Ok(in_the_lab.unwrap_or(study))
}

/// The study, and the lab's where that differs.
fn parse_both(text: &str) -> Result<(Study, Option<Study>), StudyErrors> {
    let problems = Problems::of(text);
    if text.len() as u64 > MAX_STUDY.get() {
        let size = Bytes::new(text.len() as u64);
        problems.add(
            0,
            "",
            format!("this file has {size}, a study at most {MAX_STUDY}; is it the right file?"),
        );
        return problems.settle(None);
    }
    let (document, syntax_errors) = DeTable::parse_recoverable(text);
    if !syntax_errors.is_empty() {
        add_syntax_errors(&problems, &syntax_errors);
        return problems.settle(None);
    }
    let mut document = document.into_inner();
    correct_keys(&mut document, &problems);
    let changed = in_lab::split(&mut document, &problems);
    let study = read(&Section::root(&document, &problems), factor::FEWEST_LEVELS);
    // What is wrong with both is said once.
    let in_the_lab = match &changed {
        Some(changed) if problems.is_empty() => {
            read(&Section::root(changed, &problems), factor::FEWEST_LEVELS_IN_LAB)
        }
        _ => None,
    };
    problems.settle(study.map(|study| (study, in_the_lab)))
}

/// Notes each key of the file that is misspelt, and reads it as what is meant: so what is wrong below it is
/// said too, and nobody is told that what is there is missing.
fn correct_keys(document: &mut DeTable, problems: &Problems) {
    let root = Section::root(document, problems);
    let version = root.get("flyball").map(|node| node.integer());
    if version.is_some_and(|version| version != Some(FORMAT_VERSION)) {
        // A later version may mean anything by its keys.
        return;
    }
    let absent = KEYS.iter().copied().filter(|key| root.get(key).is_none());
    let mut absent: Vec<&'static str> = absent.collect();
    let mut misspelt = Vec::new();
    for node in root.entries().iter().filter(|node| !KEYS.contains(&node.key)) {
        let Some(meant) = node::nearest(node.key, absent.iter().copied()) else { continue };
        node.refuse_key(format!("unknown key; did you mean `{meant}`?"));
        absent.retain(|key| *key != meant);
        misspelt.push((node.key.to_owned(), meant));
    }
    for (written, meant) in misspelt {
        let Some((key, value)) = document.remove_entry(written.as_str()) else { continue };
        document.insert(Spanned::new(key.span(), meant.into()), value);
    }
}

/// One error a line: what follows on a line is mostly the echo of its first.
fn add_syntax_errors(problems: &Problems, errors: &[toml::de::Error]) {
    let mut last: Option<usize> = None;
    for error in errors {
        let offset = error.span().map_or(0, |span| span.start);
        if !last.is_some_and(|last| problems.share_a_line(last, offset)) {
            problems.add(
                offset,
                "",
                format!("{}; see https://toml.io for the syntax", reason(error.message())),
            );
        }
        last = Some(offset);
    }
}

/// The parser takes a bare word that begins with `t` or `f` for a boolean, which `tool = fio` is not.
fn reason(message: &str) -> &str {
    match message.strip_prefix("invalid boolean") {
        Some(_) => "this is neither a string, which is quoted, nor `true` or `false`",
        None => message,
    }
}

fn read(root: &Section, fewest_levels: usize) -> Option<Study> {
    version(root)?;
    root.only(&KEYS);
    let name = root.require("name", "name = \"my-study\"").and_then(|node| name(&node));
    let question = root.require("question", "question = \"Does … decide …?\"").and_then(|node| node.text());
    let primary = root.get("primary").map_or(Some(vec![]), |node| names(&node));
    let target = root.get("target").map_or(Some(Target::None), |node| target(&node));
    let stack = match root.get("stack") {
        Some(_) => children(root, "stack", "[stack.NAME]", stack::layer)
            .all()
            .map(|layers| Some(StackSpec { layers })),
        None => Some(None),
    };
    let settings = root.get("settings").map_or(Some(vec![]), |node| settings::read(&node));
    let workloads = children(root, "workload", "[workload.NAME]", workload::read);
    let beside = match root.get("beside") {
        Some(_) => children(root, "beside", "[beside.NAME]", beside::read),
        None => Children { read: vec![], complete: true },
    };
    let factors = match root.get("factor") {
        Some(_) => children(root, "factor", "[factor.NAME]", |node| factor::read(node, fewest_levels)),
        None => Children { read: vec![], complete: true },
    };
    let measure = measure_of(root, target.as_ref());
    let lab = root.get("lab").map_or_else(|| Some(Lab::default()), |node| lab::read(&node));
    let sim = root.get("sim").map_or_else(|| Some(Sim::default()), |node| sim::read(&node));
    let published = match (root.get("published"), &measure) {
        (None, _) => Some(vec![]),
        (Some(node), Some(measure)) if workloads.complete => {
            published::read(&node, &workloads.read, &measure.metric)
        }
        // Which units its figures are in is not known; what is wrong above has been said.
        (Some(_), _) => None,
    };
    let page = root.get("page").map_or(Some(None), |node| page::read(&node).map(Some));
    let known = check::Known {
        place: target.is_some() && stack.is_some(),
        metric: measure.is_some() && lab.is_some(),
        workloads: workloads.complete,
        beside: beside.complete,
        factors: factors.complete,
        rest: name.is_some()
            && question.is_some()
            && [primary.is_some(), settings.is_some(), sim.is_some(), published.is_some(), page.is_some()]
                .iter()
                .all(|read| *read),
    };
    // What could not be read has a stand-in, which nothing that is known is held against.
    let study = Study {
        name: name.unwrap_or_default(),
        question: question.unwrap_or_default().to_owned(),
        primary: primary.unwrap_or_default(),
        target: target.unwrap_or(Target::None),
        stack: stack.unwrap_or_default(),
        workloads: workloads.read,
        beside: beside.read,
        factors: factors.read,
        settings: settings.unwrap_or_default(),
        measure: measure.unwrap_or_default(),
        lab: lab.unwrap_or_default(),
        sim: sim.unwrap_or_default(),
        published: published.unwrap_or_default(),
        page: page.unwrap_or_default(),
    };
    check::check(&study, known, root);
    known.all().then_some(study)
}

/// How it is measured. The page cache is everybody's: beside somebody's server it is dropped only where the
/// study says so.
fn measure_of(root: &Section, target: Option<&Target>) -> Option<domain::study::Measure> {
    let node = root.get("measure");
    let says =
        node.as_ref().and_then(Node::section_if_any).is_some_and(|keys| keys.get("drop_caches").is_some());
    let measure =
        node.map_or_else(|| Some(domain::study::Measure::default()), |node| measure::read(&node))?;
    let drop_caches = measure.drop_caches && (says || !matches!(target, Some(Target::Server(_))));
    Some(domain::study::Measure { drop_caches, ..measure })
}

/// A name, or a list of names.
fn names(node: &Node) -> Option<Vec<String>> {
    match node.items_if_any().as_slice() {
        [] => Some(vec![node.text()?.to_owned()]),
        items => items.iter().map(|item| item.text().map(str::to_owned)).collect(),
    }
}

/// `flyball = 1`, before anything else: a later version may mean anything by its other keys.
fn version(root: &Section) -> Option<()> {
    // Whoever forgot it is told what else is wrong all the same.
    let Some(node) = root.require("flyball", "flyball = 1") else { return Some(()) };
    if node.integer() != Some(FORMAT_VERSION) {
        node.refuse(format!("this program reads version {FORMAT_VERSION} of the study format; write `flyball = {FORMAT_VERSION}`, or get the flyball that reads this file"));
        return None;
    }
    if root.entries().first().is_some_and(|first| first.key != "flyball") {
        node.refuse_key("has to be the first key of the file, so that it can be told what the others mean");
    }
    Some(())
}

/// The named tables below a key, as far as they could be read.
struct Children<T> {
    read: Vec<T>,
    /// Whether that is all of them. What is wrong with the others has been said.
    complete: bool,
}

impl<T> Children<T> {
    /// All of them, or none.
    fn all(self) -> Option<Vec<T>> {
        self.complete.then_some(self.read)
    }
}

/// Reads the named tables below a key, such as `[workload.NAME]`; at least one has to be there.
fn children<'a, T>(
    root: &Section<'a>,
    key: &str,
    form: &str,
    read: impl Fn(&Node<'a>) -> Option<T>,
) -> Children<T> {
    let nodes = child_nodes(root, key, form).unwrap_or_default();
    let read: Vec<T> = nodes.iter().filter_map(read).collect();
    Children { complete: !nodes.is_empty() && read.len() == nodes.len(), read }
}

fn child_nodes<'a>(root: &Section<'a>, key: &str, form: &str) -> Option<Vec<Node<'a>>> {
    let section = root.require(key, form)?.section()?;
    let nodes = section.entries();
    if nodes.is_empty() {
        section.refuse(format!("is empty; write `{form}`"));
        return None;
    }
    if nodes.len() > MAX_CHILDREN {
        section.refuse(format!(
            "has {} tables, and {MAX_CHILDREN} at most make sense; split the study",
            nodes.len()
        ));
        return None;
    }
    Some(nodes)
}

fn target(node: &Node) -> Option<Target> {
    let section = node.section()?;
    const KINDS: [&str; 6] = ["file", "loop", "device", "read_only", "folder", "server"];
    section.only(&[&KINDS[..], &["size"], &server::KEYS].concat());
    let given: Vec<Node> = KINDS.iter().filter_map(|kind| section.get(kind)).collect();
    if let Some(size) = section.get("size").filter(|_| section.get("folder").is_none()) {
        size.refuse_key(
            "is the size of a file in a `folder`; write `file = \"256MiB\"` for one in the work folder",
        );
        return None;
    }
    let of_a_server = server::KEYS.iter().find_map(|key| section.get(key));
    if let Some(node) = of_a_server.filter(|_| section.get("server").is_none()) {
        node.refuse_key(
            "says how a server is reached; write `server = \"/run/postgresql\"` beside it, or take it out",
        );
        return None;
    }
    match &given[..] {
        [one] => match one.key {
            "file" => one.size(Bytes::new(1)..=MAX_TARGET).map(Target::File),
            "loop" => looped(one),
            "read_only" => path_of(one, "", "/dev/nvme0n1").map(Target::ReadOnly),
            "folder" => folder(one, &section),
            "server" => server::read(one, &section),
            _ => device(one),
        },
        [first, second, ..] => {
            second
                .refuse_key(format!("a study has one target; take out `{}` or `{}`", first.key, second.key));
            None
        }
        // An unknown key has been said to be one.
        [] if !section.entries().is_empty() => None,
        [] => {
            section
                .refuse("is empty; write `file = \"256MiB\"`, `loop = \"256MiB\"` or `read_only = \"/dev/…\"`, or take the table out");
            None
        }
    }
}

fn looped(node: &Node) -> Option<Target> {
    let bytes = node.size(LOOP_MULTIPLE..=MAX_TARGET)?;
    if !bytes.get().is_multiple_of(LOOP_MULTIPLE.get()) {
        node.refuse(format!("has to be a multiple of {LOOP_MULTIPLE}, which a loop device is made of"));
        return None;
    }
    Some(Target::Loop(bytes))
}

fn folder(node: &Node, target: &Section) -> Option<Target> {
    let size =
        target.require("size", "size = \"1GiB\"").and_then(|node| node.size(Bytes::new(1)..=MAX_TARGET));
    let path = path_of(node, "", "/var/lib/data");
    Some(Target::Folder { path: path?, size: size? })
}

fn device(node: &Node) -> Option<Target> {
    let path = absolute_path(node, "/dev/sda")?;
    if !path.starts_with("/dev/") {
        node.refuse(format!(
            "`{path}` is no device of a lab machine; write one such as `/dev/sda` or `/dev/mapper/vault`"
        ));
        return None;
    }
    Some(Target::LabDevice(path))
}

/// A text that says something.
fn words(node: &Node) -> Option<String> {
    let text = node.text()?;
    if text.trim().is_empty() {
        node.refuse("is empty; take it out, or say what is meant");
        return None;
    }
    Some(text.to_owned())
}

/// A bound on a path of the guest.
const MAX_PATH_CHARS: usize = 255;

/// An absolute path of the guest that means what it shows: no `..`, nothing empty.
fn absolute_path(node: &Node, example: &str) -> Option<String> {
    path_of(node, " of the guest", example)
}

/// The same of some machine.
fn path_of(node: &Node, whose: &str, example: &str) -> Option<String> {
    let text = node.text()?;
    let whole = text
        .strip_prefix('/')
        .is_some_and(|rest| !rest.is_empty() && rest.split('/').all(|part| !["", ".", ".."].contains(&part)));
    if !whole || text.chars().count() > MAX_PATH_CHARS {
        node.refuse(format!("has to be an absolute path{whose}, without `.` and `..`, such as `{example}`"));
        return None;
    }
    Some(text.to_owned())
}

/// A name of letters, digits, `-` and `_`.
fn name(node: &Node) -> Option<String> {
    let text = node.text()?;
    if is_name(text) {
        return Some(text.to_owned());
    }
    node.refuse(NAME_RULE.replace("{}", text));
    None
}

/// The same for a name that is a key.
fn key_name(node: &Node) -> Option<String> {
    if is_name(node.key) {
        return Some(node.key.to_owned());
    }
    node.refuse_key(NAME_RULE.replace("{}", &node.key.escape_debug().to_string()));
    None
}

const NAME_RULE: &str = "`{}` is not a name; use 1 to 64 letters, digits, `-` and `_`";

fn is_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=MAX_NAME_CHARS).contains(&text.len()) && text.chars().all(allowed)
}

#[cfg(test)]
mod tests;
