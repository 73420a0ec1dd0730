//! Connections: taken, bounded, and let finish when the server stops.
//!
//! Promise: a client that is silent, slow to begin or does not read what it is sent is let go; see `registry.rs` for who may
//! have how many.

mod registry;
mod stall;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use registry::Connections;
pub(crate) use registry::Place;
use stall::WriteTimeout;

use crate::access::Peer;
use crate::options::Limits;

/// The most headers of a request.
const MAX_HEADERS: usize = 64;
/// The most bytes of a request's head.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// How long to wait before taking connections again where the system has no descriptors left.
const BREATH: Duration = Duration::from_millis(50);

/// Takes connections until told to stop, then lets those there are finish, up to the drain limit.
pub(crate) async fn serve(listener: TcpListener, router: Router, limits: Limits, stop: CancellationToken) {
    let (connections, graceful) = (Connections::new(&limits), GracefulShutdown::new());
    loop {
        let (stream, peer) = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be taken");
                    connections.make_room();
                    tokio::time::sleep(BREATH).await;
                    continue;
                }
            },
        };
        // Small answers must not wait for the client's acknowledgement of the last one.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection went away at once");
            continue;
        }
        match connections.open(peer.ip()) {
            None => drop(tokio::spawn(turn_away(stream))),
            Some(ticket) => {
                let spoken = Arc::new(AtomicBool::new(false));
                let service = Client { peer, place: ticket.place(), spoken: Arc::clone(&spoken) };
                let connection = graceful.watch(connection(stream, service, router.clone(), &limits));
                let first_head = limits.first_head;
                tokio::spawn(async move {
                    tokio::select! {
                        ended = connection => if let Err(error) = ended {
                            tracing::debug!(%error, "a connection ended early");
                        },
                        () = ticket.cut() => tracing::debug!("a connection without a credential gave way"),
                        () = silent_for(first_head, &spoken) => tracing::debug!("a silent connection was closed"),
                    }
                });
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(limits.drain, graceful.shutdown()).await.is_err() {
        tracing::warn!("some clients were still being answered when the server stopped");
    }
}

/// The other side of a connection.
struct Client {
    peer: SocketAddr,
    place: Place,
    /// Whether a whole head came.
    spoken: Arc<AtomicBool>,
}

/// Completes where no whole head came in time.
async fn silent_for(first_head: Duration, spoken: &AtomicBool) {
    tokio::time::sleep(first_head).await;
    if spoken.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}

fn connection(
    stream: TcpStream,
    client: Client,
    router: Router,
    limits: &Limits,
) -> http1::Connection<
    TokioIo<WriteTimeout<TcpStream>>,
    impl hyper::service::Service<hyper::Request<Incoming>, Response = Response, Error = Infallible, Future: Send>
    + use<>,
> {
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        client.spoken.store(true, Ordering::Relaxed);
        let mut request: Request = request.map(Body::new);
        request.extensions_mut().insert(Peer(client.peer.ip()));
        request.extensions_mut().insert(client.place.clone());
        router.clone().oneshot(request)
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.sending)
        .max_headers(MAX_HEADERS)
        // The buffer's bound alone is soft: it may grow to twice as much while it is being filled.
        .max_header_size(MAX_HEAD_BYTES)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(WriteTimeout::new(stream, limits.receiving)), service)
}

/// Tells a client that there are too many, without reading what it wants.
async fn turn_away(mut stream: TcpStream) {
    const BODY: &str = "{\"type\":\"urn:countersign:too_many_connections\",\"title\":\"Service Unavailable\",\"status\":503,\
                        \"code\":\"too_many_connections\",\"detail\":\"the server has as many connections as it takes; try again\"}";
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\nconnection: close\r\nretry-after: 1\r\n\r\n{BODY}",
        BODY.len()
    );
    // Whoever does not read it sees a closed connection, which says the same.
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}
