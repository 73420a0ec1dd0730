//! One connection, spoken to in bytes: a load generator must cost less than what it measures.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::Failure;

/// A kept-alive HTTP/1.1 connection.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// A request, ready to be sent any number of times.
pub(crate) struct Prepared(Vec<u8>);

impl Prepared {
    /// A POST of JSON.
    pub(crate) fn post(path: &str, token: &str, headers: &[(&str, &str)], body: &Value) -> Self {
        let body = body.to_string();
        let more: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        Self(
            format!(
                "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n{more}content-length: {}\r\n\r\n{body}",
                body.len()
            )
            .into_bytes(),
        )
    }

    /// A GET.
    pub(crate) fn get(path: &str, token: &str) -> Self {
        Self(
            format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\n\r\n")
                .into_bytes(),
        )
    }
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(16 * 1024) })
    }

    /// Sends a request and reads the whole answer; anything but success is an error.
    pub(crate) async fn ask(&mut self, request: &Prepared) -> Result<Vec<u8>, Failure> {
        self.stream.write_all(&request.0).await?;
        self.buffer.clear();
        let (head, length) = loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                break (end + 4, content_length(&self.buffer[..end])?);
            }
            self.more().await?;
        };
        while self.buffer.len() < head + length {
            self.more().await?;
        }
        let body = self.buffer[head..head + length].to_vec();
        if !self.buffer.starts_with(b"HTTP/1.1 2") {
            return Err(format!("{}", String::from_utf8_lossy(&self.buffer)).into());
        }
        Ok(body)
    }

    /// The same, as JSON.
    pub(crate) async fn json(&mut self, request: &Prepared) -> Result<Value, Failure> {
        Ok(serde_json::from_slice(&self.ask(request).await?)?)
    }

    async fn more(&mut self) -> Result<(), Failure> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err("the server hung up".into()),
            _ => Ok(()),
        }
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn content_length(head: &[u8]) -> Result<usize, Failure> {
    let head = std::str::from_utf8(head)?;
    let line = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>())
    });
    Ok(line.ok_or_else(|| format!("no content-length in {head}"))??)
}
