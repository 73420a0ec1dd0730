//! Connections: taken, bounded, and let finish when the server stops.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

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
    let (places, graceful) = (Arc::new(Semaphore::new(limits.connections)), GracefulShutdown::new());
    loop {
        let (stream, peer) = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be taken");
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
        match Arc::clone(&places).try_acquire_owned() {
            Err(_) => drop(tokio::spawn(turn_away(stream))),
            Ok(place) => {
                let connection = graceful.watch(connection(stream, peer, router.clone(), limits.sending));
                tokio::spawn(async move {
                    if let Err(error) = connection.await {
                        tracing::debug!(%error, "a connection ended early");
                    }
                    drop(place);
                });
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(limits.drain, graceful.shutdown()).await.is_err() {
        tracing::warn!("some clients were still being answered when the server stopped");
    }
}

fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    sending: Duration,
) -> http1::Connection<
    TokioIo<TcpStream>,
    impl hyper::service::Service<
        hyper::Request<Incoming>,
        Response = axum::response::Response,
        Error = Infallible,
        Future: Send,
    >,
> {
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let mut request: Request = request.map(Body::new);
        request.extensions_mut().insert(Peer(peer.ip()));
        router.clone().oneshot(request)
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(sending)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service)
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
