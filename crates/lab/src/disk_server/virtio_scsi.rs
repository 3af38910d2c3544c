//! What virtio-scsi puts around a SCSI command. Source: virtio 1.2, section 5.6; bytes in, meaning out.

use super::scsi::{CDB, Sense};

/// The control queue, and the first of those for commands; between them is the one for events.
pub(super) const CONTROL: usize = 0;
pub(super) const FIRST_COMMANDS: usize = 2;

/// How long a command's header and its response are, with the sizes of command and sense data that a device
/// begins with.
pub(super) const HEADER: usize = 19 + CDB;
pub(super) const RESPONSE: usize = 12 + SENSE;
const SENSE: usize = 96;

/// A command's header.
pub(super) struct Command {
    /// Whether it is for the one disk that is here.
    pub(super) is_ours: bool,
    pub(super) cdb: [u8; CDB],
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Good,
    Failed(Sense),
    /// There is no such disk.
    NoTarget,
}

/// Reads a header.
pub(super) fn command(header: &[u8; HEADER]) -> Command {
    let mut cdb = [0; CDB];
    cdb.copy_from_slice(&header[19..]);
    // Target 0, unit 0, in any of the forms that a number below 256 has.
    let is_ours = header[..2] == [1, 0] && matches!(header[2..4], [0 | 0x40, 0]) && header[4..8] == [0; 4];
    Command { is_ours, cdb }
}

/// The response to a command that left so many bytes of the room for its data unused.
pub(super) fn response(outcome: Outcome, unused: u32) -> [u8; RESPONSE] {
    const CHECK_CONDITION: u8 = 2;
    const BAD_TARGET: u8 = 3;
    let mut bytes = [0; RESPONSE];
    bytes[4..8].copy_from_slice(&unused.to_le_bytes());
    match outcome {
        Outcome::Good => {}
        Outcome::NoTarget => bytes[11] = BAD_TARGET,
        Outcome::Failed(sense) => {
            let sense = sense.bytes();
            bytes[..4].copy_from_slice(&(sense.len() as u32).to_le_bytes());
            bytes[10] = CHECK_CONDITION;
            bytes[12..12 + sense.len()].copy_from_slice(&sense);
        }
    }
    bytes
}

/// The answer to what came in on the control queue; none for what is no request. No command is ever ended
/// early, and no event is ever told.
pub(super) fn control(request: &[u8]) -> Option<Vec<u8>> {
    const TASK_MANAGEMENT: u32 = 0;
    const QUERY: u32 = 1;
    const SUBSCRIBE: u32 = 2;
    const REJECTED: u8 = 5;
    match u32::from_le_bytes(*request.first_chunk()?) {
        TASK_MANAGEMENT => Some(vec![REJECTED]),
        QUERY | SUBSCRIBE => Some(vec![0; 5]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_target_0_unit_0_is_here() {
        let is_ours = |lun: [u8; 8]| {
            let mut header = [0; HEADER];
            header[..8].copy_from_slice(&lun);
            command(&header).is_ours
        };
        assert!(is_ours([1, 0, 0, 0, 0, 0, 0, 0]) && is_ours([1, 0, 0x40, 0, 0, 0, 0, 0]));
        assert!(!is_ours([1, 1, 0x40, 0, 0, 0, 0, 0]) && !is_ours([1, 0, 0x40, 1, 0, 0, 0, 0]));
        assert!(!is_ours([0xc1, 1, 0, 0, 0, 0, 0, 0]));
    }

    #[test]
    fn a_failure_comes_with_its_sense_data() {
        let bytes = response(Outcome::Failed(Sense::INVALID_FIELD), 7);
        assert_eq!(bytes[..12], [18, 0, 0, 0, 7, 0, 0, 0, 0, 0, 2, 0]);
        assert_eq!((bytes[12], bytes[14], bytes[24]), (0x70, 5, 0x24));
        assert_eq!(response(Outcome::NoTarget, 0)[11], 3);
    }

    #[test]
    fn task_management_is_rejected_and_what_is_nothing_is_told_apart() {
        assert_eq!(control(&[0; 24]), Some(vec![5]));
        assert_eq!(control(&[2, 0, 0, 0]), Some(vec![0; 5]));
        assert_eq!(control(&[9, 0, 0, 0]), None);
        assert_eq!(control(&[0; 3]), None);
    }
}
