//! The child's two pipes, read and written without a buffer that anyone else could hold.

use nix::errno::Errno;

use crate::frame::Decoder;
use crate::message::Order;

/// The orders, as they come in.
#[derive(Default)]
pub(crate) struct Orders {
    decoder: Decoder,
}

impl Orders {
    /// The next order; none once the host has closed the pipe. The error describes an invalid order.
    pub(crate) fn next(&mut self) -> Result<Option<Order>, String> {
        while !self.decoder.is_ready().map_err(|fault| fault.to_string())? {
            match nix::unistd::read(std::io::stdin(), self.decoder.room()) {
                Ok(0) => return Ok(None),
                Ok(bytes) => self.decoder.filled(bytes),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.to_string()),
            }
        }
        let frame = self.decoder.frame().map_err(|fault| fault.to_string())?.unwrap_or_default();
        serde_json::from_slice(frame).map(Some).map_err(|error| error.to_string())
    }
}

/// Writes all of it to the host, and empties it.
pub(crate) fn write(out: &mut Vec<u8>) -> Result<(), Errno> {
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
