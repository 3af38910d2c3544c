//! A file that is removed and made anew: its pages leave memory, and its blocks are free (`ext4_truncate`,
//! `truncate_inode_pages`).
//!
//! What is dirty and was not written never will be. An approximation: a page that is being written, or that a
//! transaction of the journal holds with its data, stays until it is written, where jbd2 would forget or
//! revoke it. The blocks of pointers that are read for it are taken to be in memory.

use super::File;
use super::pages::PAGE;
use super::read::METADATA;
use crate::cpu::Cost;
use crate::engine::Core;

/// Pages that are freed in one step: as many as one block of pointers points to.
const STEP: u64 = 1024;

impl File {
    /// The next pages of what is freed.
    pub(super) fn free(&mut self, core: &mut Core, id: u32) {
        if !self.take_lock(id) {
            return;
        }
        let ask = self.asks[id];
        if ask.at >= ask.end {
            self.release_lock(core, id);
            self.finish(core, id);
            return;
        }
        let first = ask.at / PAGE;
        let end = ask.end.div_ceil(PAGE).min(first + STEP);
        if !self.has_room(core, id, METADATA) {
            return;
        }
        for page in first..end {
            self.forget(core, page);
        }
        if let Some(fs) = &mut self.fs {
            fs.free(core, first, end - first);
        }
        self.asks[id].at = end * PAGE;
        self.go(core, id, Cost::NONE);
    }

    fn forget(&mut self, core: &mut Core, page: u64) {
        let journals = self.journals_data();
        if self.pages.forget_dirty(page)
            && journals
            && let Some(fs) = &mut self.fs
        {
            fs.page_is_home(core, page);
        }
        if self.pages.is_present(page) {
            self.pages.drop_clean(page);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::fs::FsSpec;
    use crate::page_cache::{File, FileSpec};
    use crate::testbed::{Log, Step, Testbed, read, written};
    use disks::Op;
    use domain::stack::{Features, Filesystem, FilesystemKind, Journal, JournalMode};
    use domain::units::Bytes;
    use std::collections::BTreeMap;

    const MIB: u64 = 1 << 20;
    const DEVICE: u64 = 1 << 30;

    fn ran(kind: FilesystemKind, data: JournalMode, steps: Vec<Step>) -> (Log, BTreeMap<String, u64>) {
        let options = Filesystem {
            kind,
            features: Features::Own,
            data: Some(data),
            journal: Journal::Internal,
            mkfs: Vec::new(),
            mount: Vec::new(),
        };
        let mut testbed = Testbed::new(1, 2_000);
        let (device, log) = testbed.device(DEVICE, 50_000, 5_000_000);
        let me = testbed.world.next_part();
        let spec = FileSpec {
            laid_out: Bytes::new(0),
            ..FileSpec::new("f", Bytes::new(64 * MIB), Bytes::new(DEVICE), (6, 12))
        };
        let fs = FsSpec::new(&options, DEVICE, None).unwrap();
        let file = File::on_filesystem(&mut testbed.world.core, me, device, Bytes::new(DEVICE), spec, fs);
        testbed.world.add(Box::new(file));
        testbed.scripts(me, 1, vec![steps]);
        testbed.finish();
        let counters = testbed.counters(me);
        (log, counters)
    }

    #[test]
    fn what_was_dirty_is_never_written_and_what_was_there_is_a_hole() {
        let written_first =
            [Step::IoRequest(Op::Write, 0, 8 * MIB), Step::IoRequest(Op::Discard, 0, 64 * MIB)];
        for kind in [FilesystemKind::Ext2, FilesystemKind::Ext3, FilesystemKind::Ext4, FilesystemKind::Xfs] {
            let steps = [&written_first[..], &[Step::Fsync, Step::IoRequest(Op::Read, 0, 8 * MIB)]].concat();
            let (log, counters) = ran(kind, JournalMode::Ordered, steps);
            assert_eq!(
                (read(&log), counters["data_written_bytes"], counters["dirty_bytes"]),
                (0, 0, 0),
                "{kind:?}"
            );
            assert!(written(&log) < MIB, "{kind:?}: {} bytes", written(&log));
        }
    }

    #[test]
    fn it_can_be_written_and_removed_again_and_again() {
        for data in JournalMode::ALL {
            let round = [
                Step::IoRequest(Op::Write, 0, 16 * MIB),
                Step::Sleep(6_000_000_000),
                Step::IoRequest(Op::Write, 4 * MIB, 4 * MIB),
                Step::IoRequest(Op::Discard, 0, 64 * MIB),
            ];
            let mut steps: Vec<Step> = round.iter().copied().cycle().take(24 * round.len()).collect();
            steps.extend([Step::IoRequest(Op::Write, 0, MIB), Step::Fsync]);
            let (log, counters) = ran(FilesystemKind::Ext3, data, steps);
            // What is safe in the journal may stay dirty in its place.
            assert!(counters["dirty_bytes"] == 0 || data == JournalMode::Journal, "{data:?}");
            assert!(written(&log) > 0 && counters["commits"] >= 24, "{data:?}: {counters:?}");
        }
    }
}
