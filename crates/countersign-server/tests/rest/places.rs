//! Where a request may come from: A19, DNS rebinding and foreign pages, on every route.

use crate::house::{House, Who};
use crate::roles::{address, body, requests};

#[tokio::test]
async fn a19_a_foreign_host_is_refused_on_every_route() {
    let house = House::open().await;
    let port = house.server.address().port();
    for (method, path, _) in requests() {
        let body = body(&method, path).map(|body| body.to_string()).unwrap_or_default();
        for host in [
            "evil.example".to_owned(),
            format!("evil.example:{port}"),
            format!("localhost.evil.example:{port}"),
            format!("127.0.0.1.evil.example:{port}"),
            format!("10.0.0.1:{port}"),
            "0.0.0.0".to_owned(),
            String::new(),
        ] {
            let line = format!("{method} {}", address(path));
            let (status, text) = house.raw_as(Who::Admin, &line, &format!("host: {host}\r\n"), &body).await;
            assert!(status == 403 && text.contains("foreign_host"), "{line} for {host:?}: {text}");
        }
    }
}

#[tokio::test]
async fn a19_a_foreign_origin_is_refused_on_every_route() {
    let house = House::open().await;
    let port = house.server.address().port();
    for (method, path, _) in requests() {
        let body = body(&method, path).map(|body| body.to_string()).unwrap_or_default();
        for origin in [
            "null".to_owned(),
            "https://evil.example".to_owned(),
            "http://127.0.0.1".to_owned(),
            "http://127.0.0.1:3000".to_owned(),
            format!("http://localhost:{port}"),
            format!("http://127.0.0.1:{port}.evil.example"),
            format!("http://evil@127.0.0.1:{port}"),
            format!("file://127.0.0.1:{port}"),
            String::new(),
        ] {
            let line = format!("{method} {}", address(path));
            let (status, text) =
                house.raw_as(Who::Admin, &line, &format!("origin: {origin}\r\n"), &body).await;
            assert!(status == 403 && text.contains("foreign_origin"), "{line} from {origin:?}: {text}");
        }
    }
}

#[tokio::test]
async fn a19_another_sites_page_that_hides_its_origin_is_refused_on_every_route() {
    let house = House::open().await;
    for (method, path, _) in requests() {
        let line = format!("{method} {}", address(path));
        let (status, text) = house.raw_as(Who::Admin, &line, "sec-fetch-site: cross-site\r\n", "").await;
        assert!(status == 403 && text.contains("foreign_origin"), "{line}: {text}");
    }
}

#[tokio::test]
async fn a19_what_a_form_could_send_is_refused_on_every_changing_route() {
    let house = House::open().await;
    let before = house.recorded().await;
    for (method, path, _) in requests() {
        if method == "GET" || path == "/login" {
            continue;
        }
        for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
            let line = format!("{method} {}", address(path));
            let body = r#"{"approved":true,"tool":"lab.read"}"#;
            let request = format!(
                "{line} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                house.server.address(),
                house.secret(Who::Admin).unwrap(),
                body.len()
            );
            let (status, text) = house.raw(&request).await;
            assert_eq!(status, 403, "{line} as {kind}: {text}");
        }
    }
    assert_eq!(house.recorded().await, before);
}

#[tokio::test]
async fn the_servers_own_names_and_pages_are_let_in() {
    let house = House::with(|options| {
        options.hosts = vec!["gate.example.com".to_owned()];
        options.origins = vec!["https://tools.example.com".to_owned()];
    })
    .await;
    let port = house.server.address().port();
    for headers in [
        format!("host: localhost:{port}\r\n"),
        format!("host: LOCALHOST:{port}\r\norigin: http://localhost:{port}\r\n"),
        format!("host: 127.0.0.1:{port}\r\norigin: http://127.0.0.1:{port}\r\n"),
        format!("host: [::1]:{port}\r\n"),
        "host: gate.example.com\r\norigin: https://gate.example.com\r\n".to_owned(),
        "host: gate.example.com\r\norigin: https://tools.example.com\r\n".to_owned(),
        format!("host: 127.0.0.1:{port}\r\nsec-fetch-site: same-origin\r\n"),
    ] {
        let (status, text) = house.raw_as(Who::Agent, "GET /api/whoami", &headers, "").await;
        assert_eq!(status, 200, "{headers}: {text}");
    }
}

#[tokio::test]
async fn a_request_with_two_hosts_or_none_is_served_to_nobody() {
    let house = House::open().await;
    let (at, secret) = (house.server.address(), house.secret(Who::Admin).unwrap());
    let bearer = format!("authorization: Bearer {secret}\r\nconnection: close\r\n");
    for hosts in [
        String::new(),
        format!("host: evil.example\r\nhost: {at}\r\n"),
        format!("host: {at}\r\nhost: evil.example\r\n"),
    ] {
        let (status, text) = house.raw(&format!("GET /api/whoami HTTP/1.1\r\n{hosts}{bearer}\r\n")).await;
        assert!(status == 403 || status == 400, "{hosts:?}: {text}");
    }
    // The address of an absolute form counts for nothing beside the header.
    let line = format!("GET http://evil.example/api/whoami HTTP/1.1\r\nhost: {at}\r\n{bearer}\r\n");
    let (_, text) = house.raw(&line).await;
    assert!(text.contains("200 OK") || text.contains("403"), "{text}");
    let line = format!("GET http://{at}/api/whoami HTTP/1.1\r\nhost: evil.example\r\n{bearer}\r\n");
    assert_eq!(house.raw(&line).await.0, 403);
}
