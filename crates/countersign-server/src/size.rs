//! How large an answer becomes, counted without making it.

use std::io;

use serde::Serialize;

/// The size of a value as JSON, in bytes.
pub(crate) fn json_bytes(value: &impl Serialize) -> usize {
    let mut count = Count(0);
    // A value of ours can always be written, and counting does not fail.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

struct Count(usize);

impl io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_counted_is_what_is_written() {
        for value in [json!(null), json!({ "a": ["\u{202e}", 1.5, "\n"] }), json!("x".repeat(10_000))] {
            assert_eq!(json_bytes(&value), value.to_string().len());
        }
    }
}
