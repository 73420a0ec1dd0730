//! The server's REST interface, as our own commands use it.
//!
//! Promises: a refusal comes back as the [`Problem`] that the server wrote, with its stable code; a server that cannot be
//! reached is named; nothing is sent twice behind the caller's back; answers are bounded; the token appears in no error
//! and no log. A proxy from the environment is never used for this machine itself.

mod answer;
mod events;
mod routes;
mod source_routes;

use std::net::IpAddr;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Method, RequestBuilder, Url};

pub(crate) use answer::UNREACHABLE;
pub(crate) use events::{Heard, News};
pub(crate) use routes::Part;

use crate::exit::Problem;

/// How long a server may take to take a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// How the server can tell whose requests these are.
const USER_AGENT: &str = concat!("countersign-cli/", env!("CARGO_PKG_VERSION"));

/// One server, spoken to as one principal. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: Url,
}

impl Client {
    /// A client of the server at `url` that shows `token`.
    pub(crate) fn new(url: &str, token: &str) -> Result<Self, Problem> {
        let base = address(url)?;
        let mut credential = HeaderValue::from_str(&format!("Bearer {}", token.trim())).map_err(|_| {
            Problem::new("bad_token", "the token has characters that no token has")
                .hint("Set COUNTERSIGN_TOKEN to exactly what `countersign token create` printed.")
        })?;
        credential.set_sensitive(true);
        choose_tls();
        let mut builder = reqwest::Client::builder()
            .user_agent(USER_AGENT)
            .default_headers(HeaderMap::from_iter([(AUTHORIZATION, credential)]))
            .connect_timeout(CONNECT_WITHIN)
            // A redirect would carry a decision somewhere else than was named.
            .redirect(reqwest::redirect::Policy::none());
        if is_this_machine(&base) {
            builder = builder.no_proxy();
        }
        let http = builder
            .build()
            .map_err(|e| Problem::new("no_http", format!("no connection can be made: {e}")))?;
        Ok(Self { http, base })
    }

    /// The address, as people write it.
    pub(crate) fn url(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    fn request(
        &self,
        method: Method,
        segments: &[&str],
        query: &[(&str, String)],
    ) -> Result<RequestBuilder, Problem> {
        let mut url = self.base.clone();
        url.path_segments_mut()
            .map_err(|()| Problem::usage(format!("{} is no address of a server", self.base)))?
            .pop_if_empty()
            .extend(segments);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Ok(self.http.request(method, url))
    }
}

/// Says which library encrypts; without a word about it, making any HTTP client would panic.
pub(crate) fn choose_tls() {
    // Somebody may have chosen a provider already; then theirs stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn address(url: &str) -> Result<Url, Problem> {
    let hint = "Write an address such as http://127.0.0.1:7420.";
    let parsed = Url::parse(url)
        .map_err(|e| Problem::usage(format!("{url:?} is no address of a server: {e}")).hint(hint))?;
    if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
        return Err(Problem::usage(format!("{url:?} is no address of a server")).hint(hint));
    }
    Ok(parsed)
}

/// Whether an address never leaves this machine.
fn is_this_machine(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_goes_around_the_proxy() {
        for (url, here) in [
            ("http://127.0.0.1:7420", true),
            ("http://127.8.8.8", true),
            ("http://[::1]:7420/", true),
            ("http://localhost:1", true),
            ("http://localhost.example.com", false),
            ("https://gate.example.com", false),
            ("http://10.0.0.1:7420", false),
        ] {
            assert_eq!(is_this_machine(&address(url).unwrap()), here, "{url}");
        }
    }

    #[test]
    fn an_address_that_is_none_is_a_usage_error() {
        for url in ["", "7420", "127.0.0.1:7420", "file:///etc/passwd", "unix:/run/x"] {
            assert_eq!(address(url).unwrap_err().exit, crate::exit::Exit::Usage, "{url}");
        }
    }

    #[test]
    fn the_token_is_not_in_what_a_client_prints_of_itself() {
        let client = Client::new("http://127.0.0.1:7420", "canary").unwrap();
        assert!(!format!("{client:?}").contains("canary"));
        assert_eq!(client.url(), "http://127.0.0.1:7420");
        assert!(Client::new("http://127.0.0.1:7420", "two\nlines").is_err());
    }

    #[test]
    fn what_is_put_into_a_path_stays_one_segment_of_it() {
        let client = Client::new("http://127.0.0.1:7420/gate/", "t").unwrap();
        let request =
            client.request(Method::GET, &["api", "tools", "../x?y=1#z"], &[]).unwrap().build().unwrap();
        assert_eq!(request.url().as_str(), "http://127.0.0.1:7420/gate/api/tools/..%2Fx%3Fy=1%23z");
    }
}
