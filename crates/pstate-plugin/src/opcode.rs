//! The few x86 instructions that matter here, by their bytes (Intel SDM volume 2).

/// What an instruction is to this plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `out %al,(%dx)` or `out %eax,(%dx)`: it may write a P-state or a control value.
    Out,
    /// `in (%dx),%al` or `in (%dx),%eax`: it may enter an idle state.
    In,
    /// `hlt` or `mwait`: the CPU is about to be idle.
    Halt,
}

/// What the bytes of one instruction are; `None` for all others.
///
/// `in` and `out` whose port is given in the instruction itself are not looked at: they reach ports below
/// 0x100 only.
pub fn kind(bytes: &[u8]) -> Option<Kind> {
    let start = bytes.iter().position(|byte| !is_prefix(*byte))?;
    match bytes[start..] {
        [0xee | 0xef, ..] => Some(Kind::Out),
        [0xec | 0xed, ..] => Some(Kind::In),
        [0xf4, ..] | [0x0f, 0x01, 0xc9, ..] => Some(Kind::Halt),
        _ => None,
    }
}

/// Operand size, address size, repetition, segments, and REX: none changes which of these instructions it is.
const fn is_prefix(byte: u8) -> bool {
    matches!(byte, 0x66 | 0x67 | 0xf0 | 0xf2 | 0xf3 | 0x2e | 0x36 | 0x3e | 0x26 | 0x64 | 0x65 | 0x40..=0x4f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_out_and_halt_are_known_behind_prefixes_and_nothing_else_is() {
        for (bytes, expected) in [
            (&[0xee][..], Some(Kind::Out)),
            (&[0x66, 0xef], Some(Kind::Out)),
            (&[0xec], Some(Kind::In)),
            (&[0x66, 0xed], Some(Kind::In)),
            (&[0xe4, 0x80], None),
            (&[0xf4], Some(Kind::Halt)),
            (&[0x0f, 0x01, 0xc9], Some(Kind::Halt)),
            (&[0xe6, 0x80], None),
            (&[0x0f, 0x01, 0xc8], None),
            (&[0x90], None),
            (&[0x66], None),
            (&[], None),
        ] {
            assert_eq!(kind(bytes), expected, "{bytes:x?}");
        }
    }
}
