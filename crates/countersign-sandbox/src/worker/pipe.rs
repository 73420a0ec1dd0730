//! The child's two pipes, read and written without a buffer that anyone else could hold.

use nix::errno::Errno;

use crate::frame::Decoder;
use crate::message::Order;

/// How much is read at once.
const READ_BYTES: usize = 64 * 1024;

/// The orders, as they come in.
pub(crate) struct Orders {
    decoder: Decoder,
    read: Vec<u8>,
}

impl Default for Orders {
    fn default() -> Self {
        Self { decoder: Decoder::default(), read: vec![0; READ_BYTES] }
    }
}

impl Orders {
    /// The next order; none once the host has hung up. What no host says is told in words.
    pub(crate) fn next(&mut self) -> Result<Option<Order>, String> {
        loop {
            if let Some(frame) = self.decoder.frame().map_err(|fault| fault.to_string())? {
                return serde_json::from_slice(frame).map(Some).map_err(|error| error.to_string());
            }
            match nix::unistd::read(std::io::stdin(), &mut self.read) {
                Ok(0) => return Ok(None),
                Ok(bytes) => self.decoder.feed(&self.read[..bytes]),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.to_string()),
            }
        }
    }
}

/// Writes all of it, and empties it.
pub(crate) fn answer(out: &mut Vec<u8>) -> Result<(), Errno> {
    let mut rest = out.as_slice();
    while !rest.is_empty() {
        match nix::unistd::write(std::io::stdout(), rest) {
            Ok(bytes) => rest = &rest[bytes..],
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    out.clear();
    Ok(())
}
