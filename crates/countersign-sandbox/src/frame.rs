//! Framing: a length, then that many bytes of JSON.
//!
//! Promise: whatever bytes arrive, the decoder answers with a frame, a wish for more or a fault. It never panics, and
//! holds no more than one frame and one read beyond it, whatever length a frame claims to have.

use std::fmt;

use serde::Serialize;

/// The longest frame, without its length. A value of the largest size fits with its escapes and its envelope.
pub(crate) const MAX_FRAME_BYTES: usize = 4 * 1024 * 1024;

/// How many bytes say the length.
const PREFIX_BYTES: usize = 4;

/// Up to here the room of a frame that was read is kept for the next one.
const KEPT_ROOM_BYTES: usize = 64 * 1024;

/// What is wrong with a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FrameFault {
    /// It is, or claims to be, longer than [`MAX_FRAME_BYTES`].
    TooLong { bytes: usize },
    /// It holds nothing; no message is empty.
    Empty,
    /// It cannot be written as JSON.
    Unwritable { cause: String },
}

impl fmt::Display for FrameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { bytes } => write!(f, "a frame of {bytes} bytes; it may have {MAX_FRAME_BYTES}"),
            Self::Empty => f.write_str("an empty frame"),
            Self::Unwritable { cause } => write!(f, "a message that cannot be written: {cause}"),
        }
    }
}

/// Appends a message as a frame. If it does not fit, `out` is as it was.
pub(crate) fn append<T: Serialize>(out: &mut Vec<u8>, message: &T) -> Result<(), FrameFault> {
    let start = out.len();
    out.extend_from_slice(&[0; PREFIX_BYTES]);
    let written = match serde_json::to_writer(&mut *out, message) {
        Ok(()) => prefix(out.len() - start - PREFIX_BYTES),
        Err(error) => Err(FrameFault::Unwritable { cause: error.to_string() }),
    };
    match written {
        Ok(prefix) => {
            out[start..start + PREFIX_BYTES].copy_from_slice(&prefix);
            Ok(())
        }
        Err(fault) => {
            out.truncate(start);
            Err(fault)
        }
    }
}

fn prefix(bytes: usize) -> Result<[u8; PREFIX_BYTES], FrameFault> {
    match u32::try_from(bytes) {
        Ok(length) if bytes <= MAX_FRAME_BYTES => Ok(length.to_le_bytes()),
        _ => Err(FrameFault::TooLong { bytes }),
    }
}

/// Takes frames out of a stream of bytes.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    bytes: Vec<u8>,
    /// How much of `bytes` was given out already.
    given: usize,
}

impl Decoder {
    /// Takes in what was read. Whoever reads asks [`Self::frame`] first, so that no more than one read is ahead.
    pub(crate) fn feed(&mut self, read: &[u8]) {
        if self.given > 0 {
            self.bytes.drain(..self.given);
            self.given = 0;
            if self.bytes.capacity() > KEPT_ROOM_BYTES {
                self.bytes.shrink_to(KEPT_ROOM_BYTES);
            }
        }
        self.bytes.extend_from_slice(read);
    }

    /// The next frame's body, if it is here as a whole.
    pub(crate) fn frame(&mut self) -> Result<Option<&[u8]>, FrameFault> {
        let Some(length) = self.here()? else { return Ok(None) };
        let start = self.given + PREFIX_BYTES;
        self.given = start + length;
        Ok(Some(&self.bytes[start..start + length]))
    }

    /// How long the next frame's body is, if it is here as a whole.
    fn here(&self) -> Result<Option<usize>, FrameFault> {
        let Some((prefix, body)) = self.bytes[self.given..].split_first_chunk::<PREFIX_BYTES>() else {
            return Ok(None);
        };
        let length = usize::try_from(u32::from_le_bytes(*prefix)).unwrap_or(usize::MAX);
        match length {
            0 => Err(FrameFault::Empty),
            1..=MAX_FRAME_BYTES => Ok(Some(length).filter(|length| body.len() >= *length)),
            _ => Err(FrameFault::TooLong { bytes: length }),
        }
    }

    /// True if [`Self::frame`] has one to give.
    pub(crate) fn is_ready(&self) -> Result<bool, FrameFault> {
        self.here().map(|here| here.is_some())
    }

    /// How many bytes came that belong to no whole frame.
    pub(crate) fn ahead(&self) -> usize {
        self.bytes.len() - self.given
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The largest read that a test feeds at once.
    const READ: usize = 64 * 1024;

    fn framed(bodies: &[Vec<u8>]) -> Vec<u8> {
        let mut out = Vec::new();
        for body in bodies {
            out.extend_from_slice(&u32::try_from(body.len()).unwrap().to_le_bytes());
            out.extend_from_slice(body);
        }
        out
    }

    fn drain(decoder: &mut Decoder, into: &mut Vec<Vec<u8>>) -> Result<(), FrameFault> {
        while let Some(frame) = decoder.frame()? {
            into.push(frame.to_vec());
        }
        Ok(())
    }

    #[test]
    fn a_frame_of_the_bound_passes_and_one_byte_more_does_not() {
        let fits = "x".repeat(MAX_FRAME_BYTES - 2);
        let mut out = vec![7];
        append(&mut out, &fits).unwrap();
        let mut decoder = Decoder::default();
        for read in out[1..].chunks(READ) {
            assert_eq!(decoder.frame().unwrap(), None);
            decoder.feed(read);
        }
        assert_eq!(decoder.frame().unwrap().unwrap().len(), MAX_FRAME_BYTES);

        let mut out = vec![7];
        let over = append(&mut out, &format!("{fits}x"));
        assert_eq!(over, Err(FrameFault::TooLong { bytes: MAX_FRAME_BYTES + 1 }));
        assert_eq!(out, [7], "nothing of it is left");
        let mut decoder = Decoder::default();
        decoder.feed(&u32::try_from(MAX_FRAME_BYTES + 1).unwrap().to_le_bytes());
        assert_eq!(decoder.frame(), Err(FrameFault::TooLong { bytes: MAX_FRAME_BYTES + 1 }));
    }

    #[test]
    fn a_claimed_length_allocates_nothing() {
        let mut decoder = Decoder::default();
        decoder.feed(&u32::try_from(MAX_FRAME_BYTES).unwrap().to_le_bytes());
        assert_eq!(decoder.frame(), Ok(None));
        assert!(decoder.bytes.capacity() < 64, "{}", decoder.bytes.capacity());
        decoder.feed(&[0; 3]);
        assert_eq!(decoder.ahead(), 7);
    }

    #[test]
    fn an_empty_frame_is_a_fault() {
        let mut decoder = Decoder::default();
        decoder.feed(&[0; 4]);
        assert_eq!(decoder.frame(), Err(FrameFault::Empty));
    }

    proptest! {
        #[test]
        fn frames_come_out_as_they_went_in_however_they_are_cut(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..200), 0..20),
            cut in 1_usize..64,
        ) {
            let mut decoder = Decoder::default();
            let mut seen = Vec::new();
            for read in framed(&bodies).chunks(cut) {
                decoder.feed(read);
                drain(&mut decoder, &mut seen).unwrap();
            }
            prop_assert_eq!(seen, bodies);
            prop_assert_eq!(decoder.ahead(), 0);
        }

        #[test]
        fn no_bytes_make_it_panic_or_hold_more_than_it_was_given(
            bytes in prop::collection::vec(any::<u8>(), 0..4096),
            cut in 1_usize..512,
        ) {
            let mut decoder = Decoder::default();
            let mut seen = Vec::new();
            for read in bytes.chunks(cut) {
                decoder.feed(read);
                if drain(&mut decoder, &mut seen).is_err() {
                    break;
                }
            }
            let given: usize = seen.iter().map(|frame| frame.len() + PREFIX_BYTES).sum();
            prop_assert!(given + decoder.ahead() <= bytes.len());
        }
    }
}
