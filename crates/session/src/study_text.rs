//! Names and strings in studies that this program writes itself.

/// A bound on a name, which becomes part of a folder's.
pub const MAX_NAME: usize = 64;

/// A name of letters, digits and `-`, as studies and cells have.
pub fn plain(name: &str) -> String {
    let clean = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let text: String = name.chars().map(clean).collect();
    let words: Vec<&str> = text.split('-').filter(|word| !word.is_empty()).collect();
    let text: String = words.join("-").chars().take(MAX_NAME).collect();
    if text.is_empty() { "imported".to_owned() } else { text }
}

/// A text without what would end a line or move a cursor.
pub fn plain_text(text: &str) -> String {
    text.replace(char::is_control, " ")
}
