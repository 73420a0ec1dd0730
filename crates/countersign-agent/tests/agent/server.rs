//! A stand-in for a model's server: takes requests on a real socket and answers as it was told.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// One answer.
#[derive(Clone)]
pub(crate) struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    chunks: Vec<Vec<u8>>,
    ending: Ending,
}

/// How an answer ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Whole,
    /// The connection is closed in the middle.
    Cut,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) body: serde_json::Value,
}

/// The stand-in. Its last answer is repeated.
pub(crate) struct Server {
    pub(crate) base: String,
    requests: Arc<Mutex<Vec<Request>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Answer {
    /// A stream of events.
    pub(crate) fn stream(body: &str) -> Self {
        Self::status(200, body).header("content-type", "text/event-stream")
    }

    pub(crate) fn status(status: u16, body: &str) -> Self {
        Self { status, headers: Vec::new(), chunks: vec![body.into()], ending: Ending::Whole }
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The same answer in two pieces.
    pub(crate) fn split_at(mut self, at: usize) -> Self {
        let whole: Vec<u8> = self.chunks.concat();
        self.chunks = vec![whole[..at].to_vec(), whole[at..].to_vec()];
        self
    }

    /// The same answer byte by byte.
    pub(crate) fn in_bytes(mut self) -> Self {
        self.chunks = self.chunks.concat().into_iter().map(|byte| vec![byte]).collect();
        self
    }

    /// The same answer, after which the connection breaks.
    pub(crate) fn cut(mut self) -> Self {
        self.ending = Ending::Cut;
        self
    }
}

impl Server {
    pub(crate) async fn answering(answers: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, all): (_, Vec<Answer>) = (Arc::clone(&requests), answers.into_iter().collect());
        let task = tokio::spawn(async move {
            let mut number = 0;
            loop {
                let Ok((socket, _)) = listener.accept().await else { return };
                let answer = all[number.min(all.len() - 1)].clone();
                number += 1;
                let seen = Arc::clone(&seen);
                tokio::spawn(async move { serve(socket, answer, &seen).await });
            }
        });
        Self { base, requests, task }
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut socket: TcpStream, answer: Answer, seen: &Mutex<Vec<Request>>) {
    let Some(request) = read(&mut socket).await else { return };
    seen.lock().unwrap().push(request);
    let mut head =
        format!("HTTP/1.1 {} X\r\ntransfer-encoding: chunked\r\nconnection: close\r\n", answer.status);
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    socket.write_all(head.as_bytes()).await.unwrap();
    for chunk in &answer.chunks {
        // The client may have heard enough.
        let framed = [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat();
        if socket.write_all(&framed).await.is_err() {
            return;
        }
        tokio::task::yield_now().await;
    }
    if answer.ending == Ending::Whole {
        let _ = socket.write_all(b"0\r\n\r\n").await;
    }
    let _ = socket.shutdown().await;
    // Lets the client read before the socket is gone.
    let _ = tokio::time::timeout(Duration::from_millis(100), socket.read(&mut [0; 1])).await;
}

async fn read(socket: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
    let length: usize = length.trim().parse().unwrap();
    while bytes.len() < end + 4 + length {
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let body = serde_json::from_slice(&bytes[end + 4..]).unwrap_or_default();
    Some(Request { head, body })
}
