//! Somebody else's web server on this machine: another port of the same host, and by its other name another site.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::http::{HeaderMap, header};
use axum::response::Html;
use axum::routing::get;
use countersign_server::CONSOLE_HOST;
use tokio::net::TcpListener;

/// The server. It keeps every cookie that a browser sends it.
pub(crate) struct Stranger {
    port: u16,
    cookies: Arc<Mutex<Vec<String>>>,
}

impl Stranger {
    /// Serves one page, with this in its body.
    pub(crate) async fn with_page(body: String) -> Self {
        let cookies = Arc::<Mutex<Vec<String>>>::default();
        let kept = Arc::clone(&cookies);
        let page = move |headers: HeaderMap| async move {
            let sent = headers.get_all(header::COOKIE).iter().filter_map(|cookie| cookie.to_str().ok());
            kept.lock().unwrap().extend(sent.map(str::to_owned));
            Html(format!("<!doctype html><title>Stranger</title>{body}"))
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move { axum::serve(listener, Router::new().route("/", get(page))).await });
        Self { port, cookies }
    }

    /// Another port of the console's own host: to browsers it is the same site, and is sent the same cookies.
    pub(crate) fn same_site(&self) -> String {
        format!("http://{CONSOLE_HOST}:{}/", self.port)
    }

    /// Another site, as people call what listens on their machine.
    pub(crate) fn other_site(&self) -> String {
        format!("http://localhost:{}/", self.port)
    }

    /// The same, by its address.
    pub(crate) fn by_address(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// What it was sent.
    pub(crate) fn cookies(&self) -> Vec<String> {
        self.cookies.lock().unwrap().clone()
    }
}
