//! Instructions of eBPF, as the kernel takes them (RFC 9669; Linux `include/uapi/linux/bpf.h`): just those
//! that [`super::programs`] needs, on machines of little-endian byte order.
//!
//! Programs are emitted and not compiled: where a tracepoint's fields lie is known only on the machine that
//! runs them, and no compiler for BPF is needed to build Flyball.

/// A register. `R0` has what a call returns, `R1` to `R5` its arguments, which it destroys (no
/// function that is called has a fifth); `R6` to `R9` stay,
/// and `R10` is the end of the stack of 512 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R6 = 6,
    R7,
    R8,
    R9,
    R10,
}

/// What is stored in the register that is named first.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub enum Compute {
    Add = 0x00,
    Subtract = 0x10,
    Multiply = 0x20,
    Or = 0x40,
    And = 0x50,
    ShiftLeft = 0x60,
    ShiftRight = 0x70,
    Move = 0xb0,
}

/// When a jump is taken; numbers are compared without sign.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub enum When {
    Equal = 0x10,
    Greater = 0x20,
    GreaterOrEqual = 0x30,
    NotEqual = 0x50,
}

/// How many bytes are loaded or stored.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub enum Width {
    Word = 0x00,
    Byte = 0x10,
    Double = 0x18,
}

/// A function of the kernel, by its number.
#[derive(Clone, Copy, Debug)]
#[repr(i32)]
pub enum Helper {
    Lookup = 1,
    Update = 2,
    /// The monotonic clock, in nanoseconds.
    Clock = 5,
}

/// A register or a number.
#[derive(Clone, Copy, Debug)]
pub enum Operand {
    Register(Register),
    Number(i32),
}

impl From<Register> for Operand {
    fn from(register: Register) -> Self {
        Self::Register(register)
    }
}

impl From<i32> for Operand {
    fn from(number: i32) -> Self {
        Self::Number(number)
    }
}

/// A place that jumps lead to.
#[derive(Clone, Copy, Debug)]
pub struct Place(usize);

/// A program that is being written.
#[derive(Debug, Default)]
pub struct Code {
    words: Vec<u64>,
    places: Vec<Option<usize>>,
    jumps: Vec<(usize, Place)>,
}

const LOAD: u8 = 0x61;
const STORE_NUMBER: u8 = 0x62;
const STORE: u8 = 0x63;
const COMPUTE: u8 = 0x07;
const JUMP: u8 = 0x05;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const LOAD_MAP: u8 = 0x18;
/// The operand is a register.
const BY_REGISTER: u8 = 0x08;
/// `BPF_PSEUDO_MAP_FD`: the number is a descriptor of a map.
const IS_MAP: u8 = 1;

impl Code {
    fn word(&mut self, code: u8, registers: (Register, u8), offset: i16, number: i32) {
        let registers = registers.0 as u8 | registers.1 << 4;
        let [low, high] = offset.to_le_bytes();
        let [a, b, c, d] = number.to_le_bytes();
        self.words.push(u64::from_le_bytes([code, registers, low, high, a, b, c, d]));
    }

    fn with_operand(&mut self, code: u8, to: Register, offset: i16, operand: Operand) {
        match operand {
            Operand::Register(from) => self.word(code | BY_REGISTER, (to, from as u8), offset, 0),
            Operand::Number(number) => self.word(code, (to, 0), offset, number),
        }
    }

    /// In 64 bits; a number is extended with its sign.
    pub fn compute(&mut self, what: Compute, to: Register, operand: impl Into<Operand>) {
        self.with_operand(COMPUTE | what as u8, to, 0, operand.into());
    }

    /// The register becomes zero minus itself.
    pub fn negate(&mut self, of: Register) {
        const NEGATE: u8 = 0x87;
        self.word(NEGATE, (of, 0), 0, 0);
    }

    pub fn set(&mut self, to: Register, operand: impl Into<Operand>) {
        self.compute(Compute::Move, to, operand);
    }

    /// Loads without sign what lies so many bytes behind an address.
    pub fn load(&mut self, width: Width, to: Register, (address, offset): (Register, i16)) {
        self.word(LOAD | width as u8, (to, address as u8), offset, 0);
    }

    pub fn store(&mut self, width: Width, (address, offset): (Register, i16), what: impl Into<Operand>) {
        match what.into() {
            Operand::Register(from) => self.word(STORE | width as u8, (address, from as u8), offset, 0),
            Operand::Number(number) => self.word(STORE_NUMBER | width as u8, (address, 0), offset, number),
        }
    }

    /// The address of a map, by its descriptor.
    pub fn load_map(&mut self, to: Register, descriptor: i32) {
        self.word(LOAD_MAP, (to, IS_MAP), 0, descriptor);
        self.words.push(0);
    }

    pub fn call(&mut self, helper: Helper) {
        self.word(CALL, (Register::R0, 0), 0, helper as i32);
    }

    /// Ends the program; what `R0` holds is its answer.
    pub fn exit(&mut self) {
        self.word(EXIT, (Register::R0, 0), 0, 0);
    }

    /// A place that [`Self::here`] is still to be said of.
    pub fn place(&mut self) -> Place {
        self.places.push(None);
        Place(self.places.len() - 1)
    }

    /// The place is before the next instruction.
    pub fn here(&mut self, place: Place) {
        self.places[place.0] = Some(self.words.len());
    }

    pub fn jump(&mut self, to: Place) {
        self.jumps.push((self.words.len(), to));
        self.word(JUMP, (Register::R0, 0), 0, 0);
    }

    pub fn jump_if(&mut self, left: Register, when: When, right: impl Into<Operand>, to: Place) {
        self.jumps.push((self.words.len(), to));
        self.with_operand(JUMP | when as u8, left, 0, right.into());
    }

    /// All instructions, one a word but for [`Self::load_map`], which has two.
    ///
    /// # Panics
    /// Where a jump leads to a place that is nowhere, or too far.
    pub fn finish(mut self) -> Vec<u64> {
        for (at, to) in self.jumps {
            let to = self.places[to.0].expect("each place that is jumped to is put somewhere");
            // From the next instruction on.
            let distance = to as i64 - at as i64 - 1;
            let distance = i16::try_from(distance).expect("programs are short");
            self.words[at] |= u64::from(distance.cast_unsigned()) << 16;
        }
        self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_encoded_as_the_standard_has_them() {
        use Register::{R0, R1, R2, R6, R10};
        let mut code = Code::default();
        let end = code.place();
        code.set(R6, R1);
        code.load(Width::Word, R1, (R6, 8));
        code.store(Width::Double, (R10, -16), R2);
        code.store(Width::Word, (R10, -4), 7);
        code.jump_if(R1, When::Greater, R2, end);
        code.load_map(R1, 5);
        code.call(Helper::Lookup);
        code.compute(Compute::ShiftRight, R0, 63);
        code.here(end);
        code.set(R0, -1);
        code.exit();
        // Section 3 of the RFC: code, source and destination, offset, number, from the lowest byte on.
        assert_eq!(
            code.finish(),
            [
                0x0000_0000_0000_16bf,
                0x0000_0000_0008_6161,
                0x0000_0000_fff0_2a7b,
                0x0000_0007_fffc_0a62,
                0x0000_0000_0004_212d,
                0x0000_0005_0000_1118,
                0,
                0x0000_0001_0000_0085,
                0x0000_003f_0000_0077,
                0xffff_ffff_0000_00b7,
                0x0000_0000_0000_0095,
            ]
        );
    }

    #[test]
    #[should_panic(expected = "put somewhere")]
    fn a_jump_to_nowhere_is_no_program() {
        let mut code = Code::default();
        let nowhere = code.place();
        code.jump(nowhere);
        code.finish();
    }
}
