//! What is done with a stripe (`raid5.c: handle_stripe` and what it calls).

use super::super::array::{Kind, MdCosts, Tag};
use super::super::resync::{Content, Repair};
use super::super::stripes::{Head, NONE, Share, Sync};
use super::{BLOCK, IN_VAIN, Parity, ReadModifyWrite, State};
use crate::cpu::Cost;
use crate::engine::{Bio, Core};
use disks::Op;
use domain::stack::MdLevel;

impl Parity {
    /// Whether a stripe is no other than the first of its batch; it can then be joined no more
    /// (`clear_batch_ready`).
    pub(super) fn leads(&mut self, stripe: u32) -> bool {
        let head = self.stripes.head(stripe);
        head.batch_ready = false;
        if head.batch == NONE {
            return true;
        }
        if head.batch != stripe {
            return false;
        }
        let mut next = head.batch_next;
        while next != NONE {
            let head = self.stripes.head(next);
            head.batch_ready = false;
            next = head.batch_next;
        }
        true
    }

    /// What a stripe is like now; reads whose blocks are there are answered.
    pub(super) fn analyse(&mut self, core: &mut Core, stripe: u32, cost: &mut Cost) -> State {
        let head = *self.stripes.head(stripe);
        let mut state = State { syncing: head.sync != Sync::No, ..State::default() };
        for member in (0..self.geometry.members()).rev() {
            let block = *self.stripes.block(stripe, member);
            state.locked += u32::from(block.locked);
            state.up_to_date += u32::from(block.up_to_date);
            if block.to_read != NONE && block.up_to_date {
                self.stripes.block(stripe, member).to_read = NONE;
                *cost = cost.and(self.copied(core, block.to_read));
                self.answer(core, block.to_read);
            } else {
                state.to_read += u32::from(block.to_read != NONE);
            }
            if block.to_write != NONE {
                state.to_write += 1;
                state.non_overwrite += u32::from(!block.overwritten);
            }
            state.written += u32::from(block.written != NONE);
            if !self.is_in_sync(member, head.row) {
                if state.failed < 2 {
                    state.failed_members[state.failed as usize] = Some(member);
                }
                state.failed += 1;
            }
        }
        state
    }

    /// Answers the shares of a list; how many there were.
    pub(super) fn answer(&mut self, core: &mut Core, mut share: u32) -> u64 {
        let mut count = 0;
        while share != NONE {
            let gone = self.stripes.shares.remove(share);
            self.below.part_done(core, gone.bio);
            share = gone.next;
            count += 1;
        }
        count
    }

    /// A block is copied for each share of a list. The pages before it in its request are passed: half of all
    /// in the mean.
    pub(super) fn copied(&self, core: &Core, mut share: u32) -> Cost {
        let mut cost = Cost::NONE;
        while share != NONE {
            let Share { bio, next, .. } = self.stripes.shares[share];
            let passed = core.bios[bio.0].len / BLOCK / 2;
            let copy = Cost::cycles(BLOCK * self.costs.copy_byte_1024 / 1024);
            cost = cost.and(copy).and(self.costs.stripe_seek.times(passed));
            share = next;
        }
        cost
    }

    /// So many blocks go into the parities.
    pub(super) fn computed(&self, blocks: u64) -> Cost {
        let MdCosts { xor_byte_1024: xor, syndrome_byte_1024: more, .. } = self.costs;
        let each_1024 = if self.geometry.level() == MdLevel::Raid6 { 2 * (xor + more) } else { xor };
        Cost::cycles(blocks * BLOCK * each_1024 / 1024)
    }

    /// Does what can be done with a stripe now (`handle_stripe`); what it costs beside looking.
    pub(super) fn handle(&mut self, core: &mut Core, stripe: u32) -> Cost {
        let mut cost = Cost::NONE;
        self.counts.handled += 1;
        let head = self.stripes.head(stripe);
        head.handle = false;
        head.in_vain += 1;
        let head = *head;
        assert!(
            head.in_vain < IN_VAIN,
            "stripe {head:?} is handled for ever: {:?}",
            self.stripes.blocks(stripe)
        );
        if !self.leads(stripe) {
            return cost;
        }
        self.stripes.head(stripe).delayed = false;
        cost = cost.and(self.costs.stripe_member.times(u64::from(self.geometry.members())));
        let mut state = self.analyse(core, stripe, &mut cost);
        if std::mem::take(&mut self.stripes.head(stripe).drained) {
            self.want_writes(stripe);
            state.dec_preread = std::mem::take(&mut self.stripes.head(stripe).preread);
        }
        if state.written > 0 && self.parities_are_written(stripe, &state) {
            self.answer_writes(core, stripe);
        }
        let fills = state.to_read > 0
            || state.non_overwrite > 0
            || (state.to_write > 0 && state.failed > 0)
            || (state.syncing && state.up_to_date < self.geometry.members());
        if fills {
            self.fill(stripe, &mut state, &mut cost);
        }
        if state.to_write > 0 {
            self.dirty(core, stripe, &mut state, &mut cost);
        }
        if state.syncing {
            self.sync(core, stripe, &mut state, &mut cost);
        }
        let submitted = self.submit_blocks(core, stripe);
        cost = cost.and(self.costs.stripe_io.times(submitted));
        if state.dec_preread {
            self.preread_ends(core);
        }
        cost
    }

    /// The stripes of a batch, or the one.
    pub(super) fn batch_of(&self, stripe: u32) -> Vec<u32> {
        let mut all = vec![stripe];
        if self.stripes.heads[stripe as usize].batch == stripe {
            let mut next = self.stripes.heads[stripe as usize].batch_next;
            while next != NONE {
                all.push(next);
                next = self.stripes.heads[next as usize].batch_next;
            }
        }
        all
    }

    pub(super) fn has_parity(&self, stripe: u32, member: u32) -> bool {
        let head = &self.stripes.heads[stripe as usize];
        head.parity == member || head.second == Some(member)
    }

    pub(super) fn want_writes(&mut self, stripe: u32) {
        for one in self.batch_of(stripe) {
            for member in 0..self.geometry.members() {
                let parity = self.has_parity(one, member);
                let block = self.stripes.block(one, member);
                block.wants_write = block.locked && (parity || block.written != NONE);
            }
        }
    }

    pub(super) fn parities_are_written(&self, stripe: u32, state: &State) -> bool {
        let head = &self.stripes.heads[stripe as usize];
        let blocks = self.stripes.blocks(stripe);
        let is_written = |member: u32| {
            let block = &blocks[member as usize];
            state.is_failed(member) || (!block.locked && block.up_to_date)
        };
        is_written(head.parity) && head.second.is_none_or(is_written)
    }

    /// Answers writes that are on the members (`handle_stripe_clean_event`), and ends the batch.
    pub(super) fn answer_writes(&mut self, core: &mut Core, stripe: u32) {
        let batch = self.batch_of(stripe);
        let mut answered = 0;
        for one in &batch {
            let row = self.stripes.head(*one).row;
            for member in 0..self.geometry.members() {
                let block = *self.stripes.block(*one, member);
                if block.written == NONE || block.locked || !block.up_to_date {
                    continue;
                }
                self.stripes.block(*one, member).written = NONE;
                answered += self.answer(core, block.written);
                if let Some(bitmap) = &mut self.bitmap {
                    bitmap.end(row * BLOCK, BLOCK);
                }
            }
        }
        if std::mem::take(&mut self.stripes.head(stripe).full_write) {
            self.pending_full_writes -= 1;
            if self.pending_full_writes == 0 {
                self.wake(core, 0);
            }
        }
        if answered > 0 && batch.len() > 1 {
            for one in &batch {
                let head = self.stripes.head(*one);
                (head.batch, head.batch_next) = (NONE, NONE);
            }
            for one in &batch[1..] {
                // Its requests are done with the batch, but those that came meanwhile.
                let has_more =
                    self.stripes.blocks(*one).iter().any(|b| b.to_write != NONE || b.to_read != NONE);
                self.stripes.head(*one).handle = has_more;
                self.release(core, *one);
            }
        }
    }

    /// Reads or computes what is needed (`handle_stripe_fill`, `fetch_block`).
    pub(super) fn fill(&mut self, stripe: u32, state: &mut State, cost: &mut Cost) {
        let members = self.geometry.members();
        for member in (0..members).rev() {
            if !self.needs(stripe, member, state) {
                continue;
            }
            let head = *self.stripes.head(stripe);
            let is_lost = state.is_failed(member);
            let is_first_of_two = head.second.is_some() && head.parity == member;
            if state.up_to_date == members - 1 && (is_first_of_two || is_lost) {
                self.stripes.block(stripe, member).up_to_date = true;
                state.up_to_date += 1;
                *cost = cost.and(self.computed(u64::from(members) - 1));
                self.stripes.head(stripe).handle = true;
                break;
            }
            if state.up_to_date + 2 == members && state.failed >= 2 {
                for member in 0..members {
                    self.stripes.block(stripe, member).up_to_date = true;
                }
                state.up_to_date += 2;
                *cost = cost.and(self.computed(2 * u64::from(members)));
                self.stripes.head(stripe).handle = true;
                break;
            }
            if !is_lost {
                self.want_read(stripe, member, state);
            }
        }
        self.stripes.head(stripe).handle = true;
    }

    pub(super) fn want_read(&mut self, stripe: u32, member: u32, state: &mut State) {
        let block = self.stripes.block(stripe, member);
        (block.locked, block.wants_read) = (true, true);
        state.locked += 1;
    }

    /// As `need_this_block`.
    pub(super) fn needs(&self, stripe: u32, member: u32, state: &State) -> bool {
        let blocks = self.stripes.blocks(stripe);
        let head = &self.stripes.heads[stripe as usize];
        let block = &blocks[member as usize];
        if block.locked || block.up_to_date {
            return false;
        }
        if block.to_read != NONE || (block.to_write != NONE && !block.overwritten) || state.syncing {
            return true;
        }
        let failed = || state.failed_members.iter().flatten().map(|m| (*m, &blocks[*m as usize]));
        if failed().any(|(_, lost)| lost.to_read != NONE) {
            return true;
        }
        if state.failed == 0 || state.to_write == 0 || (!state.is_failed(member) && !head.preread) {
            return false;
        }
        if failed().any(|(_, lost)| lost.to_write != NONE && !lost.up_to_date && !lost.overwritten) {
            return true;
        }
        let reconstructs = self.spec.read_modify_write == ReadModifyWrite::Never
            || (state.failed >= 2
                && failed().any(|(m, lost)| {
                    (lost.to_write != NONE || self.has_parity(stripe, m)) && !lost.up_to_date
                }));
        if !reconstructs && !self.must_reconstruct(head.row) {
            return false;
        }
        failed().any(|(m, lost)| !self.has_parity(stripe, m) && !lost.up_to_date && !lost.overwritten)
    }

    /// Decides how new data becomes parity, and reads for it or computes it (`handle_stripe_dirtying`).
    pub(super) fn dirty(&mut self, core: &Core, stripe: u32, state: &mut State, cost: &mut Cost) {
        let members = self.geometry.members();
        let head = *self.stripes.head(stripe);
        let (mut modify, mut reconstruct) = (0, 0);
        if self.spec.read_modify_write == ReadModifyWrite::Never
            || (self.must_reconstruct(head.row) && state.failed == 0)
        {
            (modify, reconstruct) = (2, 1);
        } else {
            for member in 0..members {
                let block = *self.stripes.block(stripe, member);
                let (parity, lost) = (self.has_parity(stripe, member), state.is_failed(member));
                let weight = if lost { 2 * members } else { 1 };
                let misses = block.misses();
                if misses && (parity || block.to_write != NONE) {
                    modify += weight;
                }
                if misses && !parity && !block.is_replaced() {
                    reconstruct += weight;
                }
            }
        }
        self.stripes.head(stripe).handle = true;
        let prefers = self.spec.read_modify_write == ReadModifyWrite::LessOrEqual;
        if modify > 0 && (modify < reconstruct || (modify == reconstruct && prefers)) {
            for member in 0..members {
                let block = *self.stripes.block(stripe, member);
                let is_of_use = block.to_write != NONE || self.has_parity(stripe, member);
                if is_of_use && block.misses() && !state.is_failed(member) {
                    self.preread(stripe, member, state);
                }
            }
        }
        if reconstruct > 0 && (reconstruct < modify || (reconstruct == modify && !prefers)) {
            reconstruct = 0;
            for member in 0..members {
                let block = *self.stripes.block(stripe, member);
                let is_of_use = block.misses() && !block.is_replaced() && !self.has_parity(stripe, member);
                if is_of_use {
                    reconstruct += 1;
                    self.preread(stripe, member, state);
                }
            }
        }
        if reconstruct > members && modify > members && !head.preread {
            self.stripes.head(stripe).delayed = true;
        }
        if state.locked == 0 && (reconstruct == 0 || modify == 0) && !self.stripes.head(stripe).bit_delay {
            self.compute_parity(core, stripe, state, reconstruct == 0, cost);
        }
    }

    pub(super) fn preread(&mut self, stripe: u32, member: u32, state: &mut State) {
        match self.stripes.head(stripe).preread && !state.is_failed(member) {
            true => self.want_read(stripe, member, state),
            false => self.stripes.head(stripe).delayed = true,
        }
    }

    /// Drains data into the cache and computes the parities (`schedule_reconstruction`, `raid_run_ops`).
    pub(super) fn compute_parity(
        &mut self,
        core: &Core,
        stripe: u32,
        state: &mut State,
        whole: bool,
        cost: &mut Cost,
    ) {
        let members = self.geometry.members();
        for one in self.batch_of(stripe) {
            let mut drained = 0;
            for member in 0..members {
                let block = *self.stripes.block(one, member);
                if block.to_write == NONE || !(whole || block.up_to_date) {
                    continue;
                }
                let entry = self.stripes.block(one, member);
                debug_assert_eq!(entry.written, NONE, "a block is drained while it is written");
                (entry.locked, entry.up_to_date, entry.overwritten) = (true, true, false);
                (entry.written, entry.to_write) = (entry.to_write, NONE);
                drained += 1;
                *cost = cost.and(self.copied(core, block.to_write));
            }
            if drained == 0 {
                return;
            }
            let head = *self.stripes.head(one);
            for parity in [Some(head.parity), head.second].into_iter().flatten() {
                let block = self.stripes.block(one, parity);
                (block.locked, block.up_to_date) = (true, true);
            }
            let data = u64::from(self.geometry.data_members());
            let inputs = if whole { data } else { 2 * drained + 1 };
            *cost = cost.and(self.computed(inputs));
            if one == stripe {
                state.locked += drained as u32;
                if whole && drained == data && !self.stripes.head(stripe).full_write {
                    self.stripes.head(stripe).full_write = true;
                    self.pending_full_writes += 1;
                }
            }
            match whole {
                true => self.counts.reconstructed += 1,
                false => self.counts.modified += 1,
            }
        }
        state.locked += 1;
        let head = self.stripes.head(stripe);
        (head.drained, head.handle) = (true, true);
    }

    /// What a resync does with a stripe that it asked for (`handle_parity_checks5`, `handle_parity_checks6`).
    pub(super) fn sync(&mut self, core: &mut Core, stripe: u32, state: &mut State, cost: &mut Cost) {
        if state.locked > 0 || self.stripes.head(stripe).drained {
            return;
        }
        let Some(progress) = &self.resync else { return };
        if self.stripes.head(stripe).sync == Sync::Reading {
            if state.up_to_date < self.geometry.members() {
                return;
            }
            *cost = cost.and(self.computed(u64::from(self.geometry.members())));
            let head = *self.stripes.head(stripe);
            let wrong: Vec<u32> = match progress.spec.repair {
                Repair::Rebuild(new) => vec![new],
                Repair::Resync(Content::Agrees) => Vec::new(),
                Repair::Resync(Content::Differs) => {
                    [Some(head.parity), head.second].into_iter().flatten().collect()
                }
            };
            for member in wrong.into_iter().filter(|member| self.below.is_there(*member)) {
                let block = self.stripes.block(stripe, member);
                (block.locked, block.wants_write) = (true, true);
                state.locked += 1;
            }
            self.stripes.head(stripe).sync = Sync::Writing;
            if state.locked > 0 {
                return;
            }
        }
        self.stripes.head(stripe).sync = Sync::No;
        if let Some(progress) = &mut self.resync {
            progress.done(BLOCK);
        }
        self.resync_goes_on(core);
    }

    /// Submits what blocks want, member by member, so that requests to one lie one after the other
    /// (`ops_run_io`); how many.
    pub(super) fn submit_blocks(&mut self, core: &mut Core, stripe: u32) -> u64 {
        let mut submitted = 0;
        let batch = self.batch_of(stripe);
        let Head { waited_for, fua, .. } = *self.stripes.head(stripe);
        for member in (0..self.geometry.members()).rev() {
            for one in &batch {
                let row = self.stripes.head(*one).row;
                let block = self.stripes.block(*one, member);
                let op = match (std::mem::take(&mut block.wants_write), std::mem::take(&mut block.wants_read))
                {
                    (true, _) => Op::Write,
                    (false, true) => Op::Read,
                    (false, false) => continue,
                };
                if !self.below.is_there(member) {
                    self.stripes.block(*one, member).locked = false;
                    self.stripes.head(stripe).handle = true;
                    continue;
                }
                let head = self.stripes.head(stripe);
                head.count += 1;
                head.io_started = true;
                let tag = Tag { kind: Kind::Stripe, member, number: *one };
                let bio = self.below.request(op, tag, row * BLOCK, BLOCK);
                let write = op == Op::Write;
                core.submit(Bio { sync: !write || waited_for, fua: write && fua, ..bio });
                submitted += 1;
            }
        }
        submitted
    }
}
