//! Framing: a length, then that many bytes of JSON.
//!
//! Promise: for any bytes, the decoder returns a frame, asks for more bytes, or reports a fault. It never panics, and
//! holds at most one frame and one read beyond it, whatever length a frame claims to have.

use std::fmt;

use serde::Serialize;

/// The longest frame, without its length. A value of the largest size fits with its escapes and its envelope.
pub(crate) const MAX_FRAME_BYTES: usize = 4 * 1024 * 1024;

const PREFIX_BYTES: usize = 4;

/// The room for a read while the length of the next frame is unknown. Most frames are shorter than this.
const SMALL_READ_BYTES: usize = 4 * 1024;

/// The most that is read at once: what a pipe holds.
const LARGE_READ_BYTES: usize = 64 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FrameFault {
    /// It is, or claims to be, longer than [`MAX_FRAME_BYTES`].
    TooLong { bytes: usize },
    /// No message is empty.
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

/// Appends a message as a frame. If it does not fit, `out` is unchanged.
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

/// Takes frames out of a stream of bytes, which is read directly into it.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    bytes: Vec<u8>,
    /// `bytes[start..end]` was read and not yet returned as a frame.
    start: usize,
    end: usize,
}

impl Decoder {
    /// Where the next read goes. The caller asks [`Self::frame`] first, so that at most one read is ahead.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let missing = match self.claimed() {
            Some(length) => (PREFIX_BYTES + length).saturating_sub(self.end),
            None => 0,
        };
        let room = missing.clamp(SMALL_READ_BYTES, LARGE_READ_BYTES);
        self.bytes.resize(self.end + room, 0);
        if self.bytes.len() <= LARGE_READ_BYTES {
            // The memory of a large frame is given back after it.
            self.bytes.shrink_to(LARGE_READ_BYTES);
        }
        &mut self.bytes[self.end..]
    }

    /// Records that `bytes` were read into [`Self::room`].
    pub(crate) fn filled(&mut self, bytes: usize) {
        self.end = self.end.saturating_add(bytes).min(self.bytes.len());
    }

    /// The next frame's body, if all of it was read.
    pub(crate) fn frame(&mut self) -> Result<Option<&[u8]>, FrameFault> {
        if !self.is_ready()? {
            return Ok(None);
        }
        let body = self.start + PREFIX_BYTES;
        self.start = body + self.claimed().unwrap_or_default();
        Ok(Some(&self.bytes[body..self.start]))
    }

    /// True if [`Self::frame`] returns one.
    pub(crate) fn is_ready(&self) -> Result<bool, FrameFault> {
        match self.claimed() {
            None => Ok(false),
            Some(0) => Err(FrameFault::Empty),
            Some(length @ 1..=MAX_FRAME_BYTES) => Ok(self.unread() >= PREFIX_BYTES + length),
            Some(bytes) => Err(FrameFault::TooLong { bytes }),
        }
    }

    /// How many bytes were read that were not returned as a frame.
    pub(crate) fn unread(&self) -> usize {
        self.end - self.start
    }

    /// The length that the next frame claims to have.
    fn claimed(&self) -> Option<usize> {
        let prefix = self.bytes[self.start..self.end].first_chunk::<PREFIX_BYTES>()?;
        Some(usize::try_from(u32::from_le_bytes(*prefix)).unwrap_or(usize::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads as much of it as there is room for, again and again, and takes the frames out.
    fn read(decoder: &mut Decoder, mut bytes: &[u8], into: &mut Vec<Vec<u8>>) -> Result<(), FrameFault> {
        loop {
            while let Some(frame) = decoder.frame()? {
                into.push(frame.to_vec());
            }
            if bytes.is_empty() {
                return Ok(());
            }
            let room = decoder.room();
            let (now, later) = bytes.split_at(room.len().min(bytes.len()));
            room[..now.len()].copy_from_slice(now);
            decoder.filled(now.len());
            bytes = later;
        }
    }

    fn framed(bodies: &[Vec<u8>]) -> Vec<u8> {
        let mut out = Vec::new();
        for body in bodies {
            out.extend_from_slice(&u32::try_from(body.len()).unwrap().to_le_bytes());
            out.extend_from_slice(body);
        }
        out
    }

    #[test]
    fn a_frame_of_the_bound_passes_and_one_byte_more_does_not() {
        let fits = "x".repeat(MAX_FRAME_BYTES - 2);
        let mut out = vec![7];
        append(&mut out, &fits).unwrap();
        let mut decoder = Decoder::default();
        let mut seen = Vec::new();
        read(&mut decoder, &out[1..], &mut seen).unwrap();
        assert_eq!(seen.iter().map(Vec::len).collect::<Vec<_>>(), [MAX_FRAME_BYTES]);
        decoder.room();
        assert!(decoder.bytes.capacity() < 2 * LARGE_READ_BYTES, "{}", decoder.bytes.capacity());

        let mut out = vec![7];
        let over = append(&mut out, &format!("{fits}x"));
        assert_eq!(over, Err(FrameFault::TooLong { bytes: MAX_FRAME_BYTES + 1 }));
        assert_eq!(out, [7], "nothing of it is left");
        let mut decoder = Decoder::default();
        let claim = u32::try_from(MAX_FRAME_BYTES + 1).unwrap().to_le_bytes();
        assert_eq!(
            read(&mut decoder, &claim, &mut seen),
            Err(FrameFault::TooLong { bytes: MAX_FRAME_BYTES + 1 })
        );
    }

    #[test]
    fn a_claimed_length_makes_room_for_one_read_and_no_more() {
        let mut decoder = Decoder::default();
        let claim = u32::try_from(MAX_FRAME_BYTES).unwrap().to_le_bytes();
        read(&mut decoder, &claim, &mut Vec::new()).unwrap();
        assert_eq!(decoder.room().len(), LARGE_READ_BYTES);
        assert!(decoder.bytes.capacity() <= 4 * LARGE_READ_BYTES, "{}", decoder.bytes.capacity());
        read(&mut decoder, &[0; 3], &mut Vec::new()).unwrap();
        assert_eq!(decoder.unread(), 7);
    }

    #[test]
    fn an_empty_frame_is_a_fault() {
        let mut decoder = Decoder::default();
        assert_eq!(read(&mut decoder, &[0; 4], &mut Vec::new()), Err(FrameFault::Empty));
    }

    proptest! {
        #[test]
        fn frames_come_out_as_they_went_in_however_they_are_cut(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..200), 0..20),
            cut in 1_usize..64,
        ) {
            let mut decoder = Decoder::default();
            let mut seen = Vec::new();
            for part in framed(&bodies).chunks(cut) {
                read(&mut decoder, part, &mut seen).unwrap();
            }
            prop_assert_eq!(seen, bodies);
            prop_assert_eq!(decoder.unread(), 0);
        }

        #[test]
        fn no_bytes_make_it_panic_or_hold_more_than_it_was_given(
            bytes in prop::collection::vec(any::<u8>(), 0..4096),
            cut in 1_usize..512,
        ) {
            let mut decoder = Decoder::default();
            let mut seen = Vec::new();
            for part in bytes.chunks(cut) {
                if read(&mut decoder, part, &mut seen).is_err() {
                    break;
                }
            }
            let given: usize = seen.iter().map(|frame| frame.len() + PREFIX_BYTES).sum();
            prop_assert!(given + decoder.unread() <= bytes.len());
        }
    }
}
