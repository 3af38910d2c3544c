//! Tables of settings, such as `[settings]`.

use super::node::{Node, Section};
use domain::setting::{SettingName, SettingRequest};

/// A bound on the settings of one table.
const MAX_SETTINGS: usize = 256;

/// Reads a table of settings, in the order of the file.
pub(super) fn read(node: &Node) -> Option<Vec<SettingRequest>> {
    let mut entries = Vec::new();
    collect("", &node.section()?, &mut entries);
    if entries.len() > MAX_SETTINGS {
        node.refuse(format!("has {} settings, and {MAX_SETTINGS} at most make sense", entries.len()));
        return None;
    }
    let mut requests: Vec<SettingRequest> = Vec::new();
    let mut complete = true;
    for (name, entry) in &entries {
        match request(name, entry) {
            Some(request) if requests.iter().any(|other| other.setting == request.setting) => {
                entry.refuse_key("this setting stands here twice; take one out");
                complete = false;
            }
            Some(request) => requests.push(request),
            None => complete = false,
        }
    }
    complete.then_some(requests)
}

/// `vm.dirty_ratio = 20` is the same without quotes, although TOML makes tables of it.
fn collect<'a>(prefix: &str, section: &Section<'a>, entries: &mut Vec<(String, Node<'a>)>) {
    for entry in section.entries() {
        let name = format!("{prefix}{}", entry.key);
        match entry.section_if_any() {
            Some(inner) => collect(&format!("{name}."), &inner, entries),
            None => entries.push((name, entry)),
        }
    }
}

fn request(name: &str, node: &Node) -> Option<SettingRequest> {
    let (setting, scalar) = (self::name(name, node), node.scalar());
    let request = SettingRequest { setting: setting?, value: scalar?.value };
    node.note_setting(&request.setting, Some(&request.value));
    Some(request)
}

/// The name of a setting, with or without an object. Which there are, the machine says.
pub(super) fn name(text: &str, node: &Node) -> Option<SettingName> {
    let setting = SettingName::parse(text);
    let odd = |part: &str| part.is_empty() || part.chars().any(|c| c.is_whitespace() || c.is_control());
    if odd(&setting.name) || setting.object.as_deref().is_some_and(odd) {
        node.refuse_key(format!(
            "`{}` is not the name of a setting; write `governor`, `vm.dirty_ratio` or `read_ahead_kb@loop3`",
            text.escape_debug()
        ));
        return None;
    }
    node.note_setting(&setting, None);
    Some(setting)
}
