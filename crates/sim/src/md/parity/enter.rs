//! Requests on their way into stripes (`raid5.c: raid5_make_request, make_stripe_request,
//! raid5_get_active_stripe, stripe_add_to_batch_list`).

use super::super::stripes::NONE;
use super::{BLOCK, LARGEST, Parity, Submission};
use crate::engine::{Bio, BioId, Core};
use disks::Op;

impl Parity {
    pub(super) fn begin_submission(&self, core: &mut Core, id: BioId, bio: &Bio) -> Submission {
        // Held until all its stripes are found.
        core.bios[id.0].scratch = 1;
        self.submission_at(id, bio.offset)
    }

    pub(super) fn submission_at(&self, id: BioId, at: u64) -> Submission {
        let number = at / self.chunk / u64::from(self.geometry.data_members());
        Submission { id, at, number, inside: 0, last: None, holds_up: None }
    }

    /// Puts a request into stripes, row by row; where there is no stripe, gives how far it is.
    pub(super) fn enter(&mut self, core: &mut Core, mut on: Submission) -> Result<(), Submission> {
        let bio = core.bios[on.id.0];
        let data = u64::from(self.geometry.data_members());
        let mut stripes = 0;
        while on.at < bio.end() {
            let end = bio.end().min(on.at + LARGEST);
            while on.number * data * self.chunk < end {
                let first_chunk = on.number * data * self.chunk;
                // One chunk of it alone: only so many rows.
                let low = on.at.max(first_chunk);
                let high = end.min(first_chunk + data * self.chunk);
                let (from, to) = match low / self.chunk == (high - 1) / self.chunk {
                    true => (low % self.chunk / BLOCK * BLOCK, (high - 1) % self.chunk + 1),
                    false => (0, self.chunk),
                };
                on.inside = on.inside.max(from);
                while on.inside < to {
                    if self.covers(first_chunk, on.inside, low, high) {
                        let row = (on.number * self.chunk + on.inside) / BLOCK;
                        let Some(stripe) = self.get(row) else {
                            core.charge(self.costs.map.times(stripes));
                            on.last = None;
                            return Err(on);
                        };
                        self.add(core, stripe, &bio, on.id, (first_chunk, on.inside, low, high));
                        self.make_due(core, stripe, &bio, &mut on.last);
                        stripes += 1;
                    }
                    on.inside += BLOCK;
                }
                on.number += 1;
                on.inside = 0;
            }
            on = Submission { last: on.last, holds_up: on.holds_up, ..self.submission_at(on.id, end) };
        }
        core.charge(self.costs.map.times(stripes));
        self.below.part_done(core, on.id);
        Ok(())
    }

    /// Whether any block of a row lies in a range.
    pub(super) fn covers(&self, first_chunk: u64, inside: u64, low: u64, high: u64) -> bool {
        (0..u64::from(self.geometry.data_members())).any(|index| {
            let at = first_chunk + index * self.chunk + inside;
            at < high && at + BLOCK > low
        })
    }

    /// The stripe of a row, with one more who has it; none where the cache is exhausted
    /// (`raid5_get_active_stripe`).
    pub(super) fn get(&mut self, row: u64) -> Option<u32> {
        if let Some(found) = self.stripes.find(row) {
            return Some(found);
        }
        if !self.exhausted {
            let stripe = self.geometry.stripe(row * BLOCK / self.chunk);
            if let Some(claimed) = self.stripes.claim(row, stripe.parity, stripe.second) {
                return Some(claimed);
            }
            self.wants_more |= !self.has_grown;
        }
        self.exhausted = true;
        self.counts.waits += 1;
        None
    }

    /// Adds what of a range lies in a stripe (`add_all_stripe_bios`).
    pub(super) fn add(
        &mut self,
        core: &mut Core,
        stripe: u32,
        bio: &Bio,
        id: BioId,
        range: (u64, u64, u64, u64),
    ) {
        let (first_chunk, inside, low, high) = range;
        let row = self.stripes.head(stripe).row;
        let order = self.geometry.stripe(row * BLOCK / self.chunk);
        for index in 0..order.data_members() {
            let at = first_chunk + u64::from(index) * self.chunk + inside;
            let (from, to) = (at.max(low), (at + BLOCK).min(high));
            if from >= to {
                continue;
            }
            core.bios[id.0].scratch += 1;
            let member = order.data(index);
            if bio.op == Op::Read {
                self.stripes.add_read(stripe, member, id);
                continue;
            }
            if self.stripes.block(stripe, member).to_write == NONE
                && let Some(bitmap) = &mut self.bitmap
            {
                bitmap.start(row * BLOCK, BLOCK);
                self.stripes.head(stripe).bit_delay = true;
                bitmap.wake_daemon(core, &self.below);
            }
            self.stripes.add_write(stripe, member, id, (from - at) as u32, (to - at) as u32);
        }
    }

    /// A stripe has got something to do (`make_stripe_request`).
    pub(super) fn make_due(&mut self, core: &mut Core, stripe: u32, bio: &Bio, last: &mut Option<u32>) {
        if bio.op == Op::Write && self.stripes.can_batch(stripe) {
            self.join_batch(core, stripe, *last);
            *last = Some(stripe);
        }
        let head = self.stripes.head(stripe);
        head.handle = true;
        head.in_vain = 0;
        head.delayed = false;
        head.waited_for |= bio.sync;
        head.fua |= bio.fua && bio.op == Op::Write;
        let alone = head.batch == NONE || head.batch == stripe;
        if alone && bio.sync && !head.preread {
            head.preread = true;
            self.prereading += 1;
        }
        let plugs = bio.plugged || self.plugs_each;
        if plugs && !self.stripes.head(stripe).plugged && core.plug(self.below.me) {
            self.stripes.head(stripe).plugged = true;
            self.plugged.push((core.context(), stripe));
        } else {
            self.release(core, stripe);
        }
    }

    /// As `stripe_add_to_batch_list`.
    pub(super) fn join_batch(&mut self, core: &mut Core, stripe: u32, last: Option<u32>) {
        let row = self.stripes.head(stripe).row;
        if (row * BLOCK).is_multiple_of(self.chunk) || self.stripes.head(stripe).batch != NONE {
            return;
        }
        let before = last.filter(|last| self.stripes.heads[*last as usize].row == row - 1);
        let Some(before) = before.or_else(|| self.stripes.peek(row - 1)) else { return };
        if !self.stripes.can_batch(before) {
            return;
        }
        let entry = self.stripes.head(before);
        if entry.batch == NONE {
            entry.batch = before;
        }
        let (first, next) = (entry.batch, std::mem::replace(&mut entry.batch_next, stripe));
        let head = self.stripes.head(stripe);
        (head.batch, head.batch_next) = (first, next);
        head.count += 1;
        let (prereads, delays) = (std::mem::take(&mut head.preread), std::mem::take(&mut head.bit_delay));
        let (waited_for, fua) = (head.waited_for, head.fua);
        let head = self.stripes.head(first);
        head.bit_delay |= delays;
        head.waited_for |= waited_for;
        head.fua |= fua;
        self.counts.batched += 1;
        if prereads {
            self.preread_ends(core);
        }
    }
}
