//! From a spec to a stack: what each layer is, what it stands on, and which layers are needed at all.

use super::layer::Misfit;
use super::values::Values;
use super::{KINDS, Layer, LayerSpec, MAX_LAYERS, Part, Stack, StackError, StackSpec, kinds};
use std::collections::{BTreeMap, BTreeSet};

type Result<T> = std::result::Result<T, StackError>;

pub(super) fn build(spec: &StackSpec) -> Result<Stack> {
    if spec.layers.len() > MAX_LAYERS {
        let layer = &spec.layers[MAX_LAYERS];
        return refuse(layer, None, format!("is one layer too many: a stack has {MAX_LAYERS} at most"));
    }
    let read: Vec<Read> = spec.layers.iter().map(read).collect::<Result<_>>()?;
    let top = top(spec, &read)?;
    let mut build = Build { spec, read: &read, layers: Vec::new(), entered: BTreeSet::new() };
    let stands_on = build.enter(top)?;
    let stack = Stack { layers: build.layers };
    if stands_on.last() != stack.layers.last().map(|layer| &layer.name) || stands_on.len() != 1 {
        return refuse(
            &spec.layers[top],
            Some("use"),
            "is `false`, and what is below is not one layer: a stack needs one top",
        );
    }
    check(spec, &stack)?;
    Ok(stack)
}

/// The first thing that is wrong with each layer; where nothing is, what is wrong with how they fit.
pub(super) fn problems(spec: &StackSpec) -> Vec<StackError> {
    let each: Vec<StackError> = spec.layers.iter().filter_map(|layer| read(layer).err()).collect();
    if each.is_empty() { build(spec).err().into_iter().collect() } else { each }
}

fn refuse<T>(layer: &LayerSpec, key: Option<&str>, reason: impl Into<String>) -> Result<T> {
    Err(StackError { layer: layer.name.clone(), key: key.map(str::to_owned), reason: reason.into() })
}

/// A layer as it was read.
struct Read {
    on: Vec<String>,
    /// Whether it is there at all; what stands on one that is not, stands on what is below.
    used: bool,
    part: Part,
}

impl Read {
    /// Every layer that it names.
    fn names(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let beside = self.part.described().beside();
        self.on.iter().map(|name| ("on", name)).chain(beside)
    }
}

fn read(layer: &LayerSpec) -> Result<Read> {
    let values = Values::of(layer);
    let Some(kind) = values.text("kind") else {
        return refuse(layer, None, format!("has no `kind`; write one of {}", in_words()));
    };
    let used = values.switch("use", true)?;
    let on = values.words("on");
    let Some(known) = KINDS.iter().find(|known| known.name == kind) else {
        return values.refuse("kind", format!("is `{kind}`, and has to be one of {}", in_words()));
    };
    let part = (known.read)(&values)?;
    values.all_read(kind)?;
    match (part.described().stands_on_nothing(), on.is_empty()) {
        (true, false) => values.refuse("on", format!("cannot be: {kind} stand on nothing")),
        (true, true) if !used => values.refuse("use", format!("cannot be `false` for {kind}")),
        (true, true) | (false, false) => Ok(Read { on, used, part }),
        (false, true) => refuse(layer, None, "stands on nothing; name a layer with `on = \"…\"`"),
    }
}

fn in_words() -> String {
    kinds().map(|kind| format!("`{kind}`")).collect::<Vec<String>>().join(", ")
}

/// The only layer that nothing else names.
fn top(spec: &StackSpec, read: &[Read]) -> Result<usize> {
    let named: BTreeSet<&String> =
        read.iter().flat_map(|layer| layer.names().map(|(_, name)| name)).collect();
    // A journal's layers are a top of their own where this cell's filesystem has its journal inside.
    let is_top = |at: &usize| !named.contains(&spec.layers[*at].name);
    let tops: Vec<usize> = (0..spec.layers.len()).filter(is_top).collect();
    match tops[..] {
        [] => match spec.layers.first() {
            Some(first) => refuse(first, None, "is part of a circle: no layer is the top one"),
            None => Err(StackError { layer: "*".into(), key: None, reason: "is empty".into() }),
        },
        // The last one in the file, where there are several: what it does not need is not built.
        [.., last] => Ok(last),
    }
}

struct Build<'a> {
    spec: &'a StackSpec,
    read: &'a [Read],
    layers: Vec<Layer>,
    entered: BTreeSet<usize>,
}

impl Build<'_> {
    /// Puts a layer after what it stands on. Gives the layers that stand for it: itself, or what is below.
    fn enter(&mut self, at: usize) -> Result<Vec<String>> {
        let (spec, read) = (&self.spec.layers[at], &self.read[at]);
        if read.used && self.layers.iter().any(|layer| layer.name == spec.name) {
            return Ok(vec![spec.name.clone()]);
        }
        if !self.entered.insert(at) {
            return refuse(spec, Some("on"), "leads back to itself");
        }
        let mut on = Vec::new();
        for below in &read.on {
            on.extend(self.enter(self.find(spec, "on", below)?)?);
        }
        let mut part = read.part.clone();
        if let Some((key, layer)) = read.part.described().beside() {
            let stands_for = self.enter(self.find(spec, key, layer)?)?;
            let [one] = &stands_for[..] else {
                return refuse(
                    spec,
                    Some(key),
                    format!("is `{layer}`, which stands for more than one layer"),
                );
            };
            part.described_mut().beside_mut().into_iter().for_each(|name| name.clone_from(one));
        }
        self.entered.remove(&at);
        if !read.used {
            return Ok(on);
        }
        self.layers.push(Layer { name: spec.name.clone(), on, part });
        Ok(vec![spec.name.clone()])
    }

    fn find(&self, from: &LayerSpec, key: &str, name: &str) -> Result<usize> {
        let found = self.spec.layers.iter().position(|layer| layer.name == name);
        let Some(at) = found else {
            let names: Vec<String> = self.spec.layers.iter().map(|l| format!("`{}`", l.name)).collect();
            return refuse(
                from,
                Some(key),
                format!("names `{name}`, and the layers are {}", names.join(", ")),
            );
        };
        Ok(at)
    }
}

/// Two layers would write to one device.
fn devices_differ(stack: &Stack) -> Result<()> {
    let mut owners: BTreeMap<(&str, &String), &str> = BTreeMap::new();
    for layer in &stack.layers {
        let Some(devices) = layer.devices() else { continue };
        for (key, names) in [("claimed", &devices.claimed), ("lab", &devices.lab)] {
            for name in names {
                let Some(owner) = owners.insert((key, name), &layer.name) else { continue };
                return Err(StackError {
                    layer: layer.name.clone(),
                    key: Some(key.into()),
                    reason: format!("names `{name}`, which is one of `{owner}` already"),
                });
            }
        }
    }
    Ok(())
}

/// What can be known of how the layers fit.
fn check(spec: &StackSpec, stack: &Stack) -> Result<()> {
    devices_differ(stack)?;
    let mut users: BTreeMap<&str, &str> = BTreeMap::new();
    for layer in &stack.layers {
        let described = layer.part.described();
        let misfit =
            |(key, reason): Misfit| StackError { layer: layer.name.clone(), key: Some(key.into()), reason };
        for below in layer.on.iter().chain(layer.beside()) {
            if let Some(other) = users.insert(below, &layer.name) {
                return Err(misfit(("on", format!("names `{below}`, which `{other}` stands on already"))));
            }
            if stack.layer(below).is_some_and(|below| below.part.described().is_folder()) {
                let why = format!("names `{below}`, which is a filesystem: nothing stands on one");
                return Err(misfit(("on", why)));
            }
        }
        described.fits(stack.below(layer)).map_err(misfit)?;
        if let Some((key, _)) = described.beside().filter(|(_, name)| stack.width(name) != 1) {
            return Err(misfit((key, "has to give one device".into())));
        }
    }
    let top = stack.top();
    if !stack.ends_in_a_filesystem() && stack.width(&top.name) != 1 {
        let layer = spec.layers.iter().find(|layer| layer.name == top.name).unwrap_or(&spec.layers[0]);
        let count = stack.width(&top.name);
        return refuse(layer, None, format!("is the top, and gives {count} devices: workloads work on one"));
    }
    Ok(())
}
