//! `/proc/fs/ext4/DEVICE/options`: all options of a mounted ext3 or ext4, defaults included
//! (`fs/ext4/super.c: _ext4_show_options`).

use domain::inventory::JournalMode;

/// How data is journalled: the kernel writes a line `data=…` for a filesystem with a journal, and none
/// without.
pub fn journal(options: &str) -> JournalMode {
    let mode = options.lines().find_map(|line| JournalMode::from_name(line.trim().strip_prefix("data=")?));
    mode.unwrap_or(JournalMode::Off)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filesystem_without_a_data_line_has_no_journal() {
        assert_eq!(journal("rw\ndelalloc\ndata=writeback\n"), JournalMode::Writeback);
        assert_eq!(journal("rw\nbsddf\ncommit=5\n"), JournalMode::Off);
    }
}
