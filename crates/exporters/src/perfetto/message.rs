//! A protobuf message that is written field by field (<https://protobuf.dev/programming-guides/encoding/>):
//! varints, 64-bit numbers and what has a length. Nothing is read here.

/// The wire types that are written.
#[derive(Clone, Copy)]
enum Wire {
    Varint = 0,
    Fixed64 = 1,
    Length = 2,
}

/// The bytes of a message so far. A field that was not written is absent, which is not zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Message(Vec<u8>);

impl Message {
    /// An integer without sign, a number of an enumeration, or a bool as 0 or 1.
    pub fn number(mut self, field: u32, value: impl Into<u64>) -> Self {
        self.tag(field, Wire::Varint);
        self.varint(value.into());
        self
    }

    /// An `int32` or `int64`: below zero it takes ten bytes.
    pub fn signed(self, field: u32, value: impl Into<i64>) -> Self {
        self.number(field, value.into().cast_unsigned())
    }

    /// A `double`.
    pub fn double(mut self, field: u32, value: f64) -> Self {
        self.tag(field, Wire::Fixed64);
        self.0.extend(value.to_le_bytes());
        self
    }

    /// A `string`.
    pub fn text(mut self, field: u32, text: &str) -> Self {
        self.bytes(field, text.as_bytes());
        self
    }

    /// A message within this one.
    pub fn message(mut self, field: u32, inner: &Message) -> Self {
        self.bytes(field, &inner.0);
        self
    }

    /// The bytes, which have no length in front of them.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.tag(field, Wire::Length);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn tag(&mut self, field: u32, wire: Wire) {
        self.varint(u64::from(field) << 3 | wire as u64);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_written_as_protobufs_guide_shows_them() {
        // The guide's own examples: `Test1.a = 150`, `Test2.b = "testing"`, `Test3.c = Test1{150}`, -2.
        let of_150 = Message::default().number(1, 150_u32);
        assert_eq!(of_150.as_bytes(), [0x08, 0x96, 0x01]);
        let text = Message::default().text(2, "testing");
        assert_eq!(text.as_bytes(), b"\x12\x07testing");
        assert_eq!(Message::default().message(3, &of_150).as_bytes(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
        let below_zero = Message::default().signed(1, -2);
        assert_eq!(below_zero.as_bytes(), [8, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
    }

    #[test]
    fn zero_is_written_and_large_fields_have_longer_tags() {
        assert_eq!(Message::default().number(16, 0_u32).as_bytes(), [0x80, 0x01, 0x00]);
        let double = Message::default().double(44, 0.5);
        assert_eq!(double.as_bytes(), [0xe1, 0x02, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f]);
        let most = Message::default().number(1, u64::MAX);
        assert_eq!(most.as_bytes()[1..], [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
    }
}
