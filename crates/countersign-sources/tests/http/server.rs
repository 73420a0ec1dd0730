//! A server that answers byte for byte what a test says, and records what it was sent.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use countersign_sources::HttpRequest;
use countersign_sources::http::{AddressPolicy, HttpClient, HttpLimits, HttpOptions, PrivateAddresses};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What the server does with one request.
pub(crate) enum Action {
    /// Sends this and closes.
    Send(String),
    /// Sends this and then nothing more, without closing.
    SendAndHang(String),
    /// Sends this and then zeros until nobody reads any more.
    SendAndFlood(String),
    /// Closes without a byte.
    Close,
}

/// A running server.
pub(crate) struct Server {
    pub(crate) port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Starts one; `act` gets the number of the request and the request.
    pub(crate) async fn start(act: impl Fn(usize, &str) -> Action + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, act) = (Arc::clone(&requests), Arc::new(act));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&seen), Arc::clone(&act)));
            }
        });
        Self { port, requests }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// The requests so far, heads and bodies as they came.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

async fn serve(
    mut stream: TcpStream,
    seen: Arc<Mutex<Vec<String>>>,
    act: Arc<impl Fn(usize, &str) -> Action>,
) {
    let Some(request) = read_request(&mut stream).await else { return };
    let number = {
        let mut seen = seen.lock().unwrap();
        seen.push(request.clone());
        seen.len()
    };
    let action = act(number, &request);
    match action {
        Action::Close => {}
        Action::Send(text) => {
            let _ = stream.write_all(text.as_bytes()).await;
        }
        Action::SendAndHang(text) => {
            let _ = stream.write_all(text.as_bytes()).await;
            std::future::pending::<()>().await;
        }
        Action::SendAndFlood(text) => {
            let _ = stream.write_all(text.as_bytes()).await;
            while stream.write_all(&[b'0'; 64 << 10]).await.is_ok() {}
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("content-length: ").map(str::to_owned))
                .map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                return Some(text);
            }
        }
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&chunk[..read]),
        }
    }
}

/// An answer with a body.
pub(crate) fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

/// Options that permit the loopback address, on which the tests' servers are.
pub(crate) fn local() -> HttpOptions {
    let addresses = AddressPolicy { private: PrivateAddresses::Permit, ..AddressPolicy::default() };
    HttpOptions { addresses, ..HttpOptions::default() }
}

pub(crate) fn impatient() -> HttpOptions {
    let short = Duration::from_millis(300);
    let limits = HttpLimits { headers: short, body: short, ..HttpLimits::default() };
    HttpOptions { limits, ..local() }
}

pub(crate) fn client(options: HttpOptions) -> HttpClient {
    HttpClient::new(options).unwrap()
}

pub(crate) fn get(url: &str) -> HttpRequest {
    HttpRequest { method: "GET".into(), url: url.into(), headers: vec![], body: None }
}

pub(crate) fn post(url: &str, body: &str) -> HttpRequest {
    HttpRequest { method: "POST".into(), url: url.into(), headers: vec![], body: Some(body.into()) }
}
