//! The guarded HTTP client against real sockets: addresses, redirects, bounds, retries, doubt, secrets.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that fails here has failed")]

mod server;

use countersign_sources::http::{
    AddressPolicy, Answer, Credential, Exchange, Extent, FAILURES_TO_OPEN, FIRST_PAUSE, HttpClient,
    HttpLimits, HttpOptions, Intent, MAX_ATTEMPTS, NotSent,
};
use countersign_sources::{HttpRequest, MASK};

use server::{Action, Server, answer, client, get, impatient, local, post};

async fn answered(client: &HttpClient, request: HttpRequest, intent: Intent) -> Answer {
    match client.send(request, intent).await {
        Exchange::Answered(answer) => answer,
        other => panic!("no answer: {other:?}"),
    }
}

fn is_refused(exchange: &Exchange) -> bool {
    matches!(exchange, Exchange::NotSent(NotSent::Address(_)))
}

#[tokio::test]
async fn an_answer_comes_back_whole_and_we_say_who_we_are() {
    let server = Server::start(|_, _| Action::Send(answer("200 OK", "X-Thing: a\r\n", "hello"))).await;
    let answer = answered(&client(local()), get(&server.url("/x?q=1")), Intent::Read).await;
    assert_eq!((answer.status, answer.body.as_slice(), answer.extent), (200, &b"hello"[..], Extent::Whole));
    assert_eq!(answer.header("x-thing"), Some("a"));
    let sent = &server.requests()[0];
    assert!(sent.starts_with("GET /x?q=1 HTTP/1.1\r\n"), "{sent}");
    assert!(sent.contains("user-agent: countersign/"), "{sent}");
}

#[tokio::test]
async fn a_private_address_is_refused_as_a_literal_and_behind_a_name_before_anything_is_sent() {
    let server = Server::start(|_, _| Action::Send(answer("200 OK", "", "never"))).await;
    let client = client(HttpOptions::default());
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1"] {
        let url = format!("http://{host}:{}/", server.port);
        let exchange = client.send(get(&url), Intent::Read).await;
        assert!(is_refused(&exchange), "{host}: {exchange:?}");
    }
    assert_eq!(server.requests(), [] as [String; 0]);
}

#[tokio::test]
async fn a_host_that_the_operator_named_is_reached() {
    let server = Server::start(|_, _| Action::Send(answer("200 OK", "", "yes"))).await;
    let addresses = AddressPolicy { hosts: vec!["localhost".into()], ..AddressPolicy::default() };
    let client = client(HttpOptions { addresses, ..HttpOptions::default() });
    let url = format!("http://localhost:{}/", server.port);
    assert_eq!(answered(&client, get(&url), Intent::Read).await.body, b"yes");
    assert!(is_refused(&client.send(get(&server.url("/")), Intent::Read).await));
}

#[tokio::test]
async fn the_environments_proxy_is_not_used() {
    // This test runs itself again as a process with another environment.
    if let Some(url) = std::env::var_os("ASKED_URL").and_then(|url| url.into_string().ok()) {
        assert_eq!(answered(&client(local()), get(&url), Intent::Read).await.body, b"direct");
        return;
    }
    let server = Server::start(|_, _| Action::Send(answer("200 OK", "", "direct"))).await;
    let proxy = Server::start(|_, _| Action::Send(answer("200 OK", "", "through the proxy"))).await;
    let mut again = tokio::process::Command::new(std::env::current_exe().unwrap());
    again
        .args(["the_environments_proxy_is_not_used", "--exact", "--nocapture"])
        .env("http_proxy", proxy.url("/"))
        .env("HTTP_PROXY", proxy.url("/"))
        .env("ALL_PROXY", proxy.url("/"))
        .env("ASKED_URL", server.url("/"));
    let output = again.output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!((server.requests().len(), proxy.requests().len()), (1, 0));
}

#[tokio::test]
async fn a_configured_proxy_is_used() {
    let proxy = Server::start(|_, _| Action::Send(answer("200 OK", "", "through the proxy"))).await;
    let client = client(HttpOptions { proxy: Some(proxy.url("/")), ..HttpOptions::default() });
    let exchange = answered(&client, get("http://api.example.com/x"), Intent::Read).await;
    assert_eq!(exchange.body, b"through the proxy");
    assert!(proxy.requests()[0].starts_with("GET http://api.example.com/x "));
    assert!(is_refused(&client.send(get("http://169.254.169.254/"), Intent::Read).await));
}

#[tokio::test]
async fn a_read_follows_a_redirect_within_its_origin() {
    let server = Server::start(|number, _| match number {
        1 => Action::Send(answer("302 Found", "Location: /there\r\n", "")),
        _ => Action::Send(answer("200 OK", "", "there")),
    })
    .await;
    let options = HttpOptions { credentials: vec![Credential::Bearer("token-123".into())], ..local() };
    assert_eq!(answered(&client(options), get(&server.url("/here?k=v")), Intent::Read).await.body, b"there");
    let second = &server.requests()[1];
    assert!(
        second.starts_with("GET /there ") && second.contains("authorization: Bearer token-123"),
        "{second}"
    );
    assert!(!second.to_lowercase().contains("referer"), "{second}");
}

#[tokio::test]
async fn a_redirect_to_another_origin_or_to_a_metadata_service_is_not_followed() {
    let elsewhere = Server::start(|_, _| Action::Send(answer("200 OK", "", "stolen"))).await;
    for target in
        [elsewhere.url("/"), "http://169.254.169.254/latest/meta-data/".into(), "//evil.example/".into()]
    {
        let location = format!("Location: {target}\r\n");
        let server = Server::start(move |_, _| Action::Send(answer("307 Temporary", &location, ""))).await;
        let options = HttpOptions { credentials: vec![Credential::Bearer("token-123".into())], ..local() };
        let answer = answered(&client(options), get(&server.url("/")), Intent::Read).await;
        assert_eq!((answer.status, answer.header("location")), (307, Some(target.as_str())));
        assert_eq!(server.requests().len(), 1);
    }
    assert_eq!(elsewhere.requests(), [] as [String; 0]);
}

#[tokio::test]
async fn a_write_follows_no_redirect_and_a_loop_of_redirects_ends() {
    let server =
        Server::start(|_, _| Action::Send(answer("307 Temporary", "Location: /again\r\n", ""))).await;
    let client = client(local());
    assert_eq!(answered(&client, post(&server.url("/"), "x"), Intent::Write).await.status, 307);
    assert_eq!(server.requests().len(), 1);
    let exchange = client.send(get(&server.url("/")), Intent::Read).await;
    assert!(matches!(exchange, Exchange::Lost(_)), "{exchange:?}");
    assert_eq!(server.requests().len(), 1 + 6);
}

#[tokio::test]
async fn an_answer_is_read_up_to_its_bound_and_cut_there() {
    for (length, extent) in
        [(99, Extent::Whole), (100, Extent::Whole), (101, Extent::Cut { limit_bytes: 100 })]
    {
        let server = Server::start(move |_, _| Action::Send(answer("200 OK", "", &"x".repeat(length)))).await;
        let limits = HttpLimits { body_bytes: 100, ..HttpLimits::default() };
        let client = client(HttpOptions { limits, ..local() });
        let answer = answered(&client, get(&server.url("/")), Intent::Read).await;
        assert_eq!((answer.body.len(), answer.extent), (length.min(100), extent));
    }
}

#[tokio::test]
async fn an_endless_answer_costs_no_more_than_the_bound() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n";
    let server = Server::start(move |_, _| Action::SendAndFlood(head.into())).await;
    let answer = answered(&client(local()), get(&server.url("/")), Intent::Read).await;
    assert_eq!((answer.body.len(), answer.extent), (1 << 20, Extent::Cut { limit_bytes: 1 << 20 }));
}

#[tokio::test]
async fn a_write_is_in_doubt_once_it_was_sent_wherever_the_server_closes_or_falls_silent() {
    const PARTIAL: &str = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhal";
    let actions: [fn() -> Action; 5] = [
        || Action::Close,
        || Action::Send("HTTP/1.1 200".into()),
        || Action::Send(PARTIAL.into()),
        || Action::SendAndHang(String::new()),
        || Action::SendAndHang(PARTIAL.into()),
    ];
    for (number, action) in actions.into_iter().enumerate() {
        let server = Server::start(move |_, _| action()).await;
        let exchange = client(impatient()).send(post(&server.url("/"), "x"), Intent::Write).await;
        assert!(matches!(exchange, Exchange::Lost(_)), "{number}: {exchange:?}");
        assert!(exchange.is_in_doubt(Intent::Write));
        assert_eq!(server.requests().len(), 1, "{number}");
    }
}

#[tokio::test]
async fn a_write_to_a_closed_port_was_not_sent() {
    let port = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let request = post(&format!("http://127.0.0.1:{port}/"), "x");
    let exchange = client(local()).send(request, Intent::Write).await;
    assert!(matches!(exchange, Exchange::NotSent(NotSent::Unreachable(_))), "{exchange:?}");
    assert!(!exchange.is_in_doubt(Intent::Write));
}

#[tokio::test]
async fn a_read_is_sent_again_when_the_source_says_later_and_a_write_never() {
    for status in ["429 Too Many", "503 Unavailable"] {
        let server = Server::start(move |number, _| match number {
            2 => Action::Send(answer("200 OK", "", "now")),
            _ => Action::Send(answer(status, "Retry-After: 0\r\n", "later")),
        })
        .await;
        let client = client(local());
        assert_eq!(answered(&client, get(&server.url("/")), Intent::Read).await.body, b"now");
        assert_eq!(answered(&client, post(&server.url("/"), "x"), Intent::Write).await.body, b"later");
        assert_eq!(server.requests().len(), 3);
    }
}

#[tokio::test]
async fn a_read_whose_connection_broke_is_sent_again_within_a_bound_and_a_write_never() {
    let server = Server::start(|number, _| match number {
        1 => Action::Close,
        2 => Action::Send(answer("200 OK", "", "at last")),
        _ => Action::Close,
    })
    .await;
    let client = client(local());
    assert_eq!(answered(&client, get(&server.url("/")), Intent::Read).await.body, b"at last");
    let write = client.send(post(&server.url("/"), "x"), Intent::Write).await;
    assert!(write.is_in_doubt(Intent::Write), "{write:?}");
    assert_eq!(server.requests().len(), 3, "the write was sent once");
    let read = client.send(get(&server.url("/")), Intent::Read).await;
    assert!(matches!(read, Exchange::Lost(_)), "{read:?}");
    assert_eq!(server.requests().len(), 3 + MAX_ATTEMPTS as usize);
}

#[tokio::test]
async fn a_write_whose_caller_went_away_still_reaches_the_server_whole() {
    let server = Server::start(|_, _| Action::Send(answer("200 OK", "", "done"))).await;
    let (client, request) = (client(local()), post(&server.url("/"), "the body"));
    let sending = tokio::spawn(async move { client.send(request, Intent::Write).await });
    tokio::task::yield_now().await;
    sending.abort();
    while server.requests().is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert!(server.requests()[0].ends_with("\r\n\r\nthe body"));
}

#[tokio::test]
async fn a_source_that_keeps_failing_is_left_alone() {
    let server = Server::start(|_, _| Action::Close).await;
    let client = client(local());
    for _ in 0..FAILURES_TO_OPEN {
        assert_eq!(client.pause(), None);
        let exchange = client.send(post(&server.url("/"), ""), Intent::Write).await;
        assert!(matches!(exchange, Exchange::Lost(_)), "{exchange:?}");
    }
    assert!(client.pause().is_some_and(|pause| pause <= FIRST_PAUSE), "{:?}", client.pause());
    let exchange = client.send(get(&server.url("/")), Intent::Read).await;
    assert!(matches!(exchange, Exchange::NotSent(NotSent::CircuitOpen { .. })), "{exchange:?}");
    assert_eq!(server.requests().len(), FAILURES_TO_OPEN as usize);
}

#[tokio::test]
async fn an_echoed_secret_is_cut_out_of_bodies_headers_and_errors() {
    let server = Server::start(|_, request| {
        let key = request.split("x-api-key: ").nth(1).unwrap().split("\r\n").next().unwrap().to_owned();
        Action::Send(answer("400 Bad", &format!("X-Echo: {key}\r\n"), &format!("your key {key} is wrong")))
    })
    .await;
    let key = Credential::Header { name: "X-Api-Key".into(), value: "canary-123".into() };
    let in_query = Credential::Query { name: "token".into(), value: "canary-456".into() };
    let client = client(HttpOptions { credentials: vec![key, in_query], ..local() });
    let answer = answered(&client, get(&server.url("/")), Intent::Read).await;
    assert_eq!(String::from_utf8(answer.body.clone()).unwrap(), format!("your key {MASK} is wrong"));
    assert_eq!(answer.header("x-echo"), Some(MASK));
    assert!(server.requests()[0].starts_with("GET /?token=canary-456 "));
    let closed = client.send(get("http://127.0.0.1:1/"), Intent::Read).await;
    assert!(!format!("{closed:?}").contains("canary"), "{closed:?}");
}

#[tokio::test]
async fn a_request_that_sets_host_or_has_a_user_in_its_address_is_refused() {
    let server = Server::start(|_, _| Action::Send(answer("200 OK", "", ""))).await;
    let client = client(local());
    let mut with_host = get(&server.url("/"));
    with_host.headers.push(("Host".into(), "other.example".into()));
    let with_user = get(&format!("http://me:pass@127.0.0.1:{}/", server.port));
    for request in [with_host, with_user, get("file:///etc/passwd"), get("not a url")] {
        let exchange = client.send(request, Intent::Read).await;
        assert!(matches!(exchange, Exchange::NotSent(NotSent::BadRequest(_))), "{exchange:?}");
    }
    assert_eq!(server.requests(), [] as [String; 0]);
}
