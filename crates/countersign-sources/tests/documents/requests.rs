//! Requests as they arrive at a recording server, byte for byte against those of swagger-client's `buildRequest`, an
//! independent implementation.

use std::collections::BTreeMap;

use countersign_sources::HttpRequest;
use countersign_sources::http::{Exchange, Intent};
use countersign_sources::openapi::Document;
use serde_json::{Value, json};

use crate::generated;
use crate::npm;
use crate::published::{at, openshift_text};
use crate::server::{Action, Server, answer, client, local};

/// Builds each request with swagger-client. References of parameters are resolved first, because it is given one operation.
const PROGRAM: &str = include_str!("node/build_requests.cjs");

/// How many operations of a document are compared.
const SAMPLE: usize = 100;

#[tokio::test]
async fn a_hundred_requests_to_github_are_those_of_another_implementation() {
    let text = String::from_utf8(npm::read("@octokit/openapi/generated/api.github.com.json")).unwrap();
    compare(&text).await;
}

#[tokio::test]
async fn a_hundred_requests_to_openshift_are_those_of_another_implementation() {
    compare(&openshift_text()).await;
}

async fn compare(text: &str) {
    let recorder = Server::start(|_, _| Action::Send(answer("200 OK", "", "{}"))).await;
    let server = recorder.url("");
    let mapped = Document::parse(text.as_bytes()).unwrap().map(&at(&server));
    let stride = mapped.offer.tools.len() / (SAMPLE + SAMPLE / 2);
    let mut ours: BTreeMap<String, HttpRequest> = BTreeMap::new();
    let mut asked = Vec::new();
    for tool in mapped.offer.tools.iter().step_by(stride) {
        let Some(arguments) = generated::arguments(&tool.input_schema.to_value()) else { continue };
        let (method, path) = tool.origin.split_once(' ').unwrap();
        asked.push(json!({ "origin": tool.origin, "method": method.to_lowercase(), "path": path, "arguments": arguments }));
        let request = mapped.operations[&tool.name].request(&arguments).unwrap();
        ours.insert(tool.origin.clone(), request);
        if asked.len() == SAMPLE {
            break;
        }
    }
    assert_eq!(asked.len(), SAMPLE, "enough operations have generated arguments");
    let document: Value = serde_json::from_str(text).unwrap();
    let input = json!({ "document": document, "server": server, "asked": asked }).to_string();
    let theirs: Vec<Value> = serde_json::from_str(&npm::node(PROGRAM, &input)).unwrap();
    assert_eq!(theirs.len(), SAMPLE);
    let client = client(local());
    for their in theirs {
        let origin = their["origin"].as_str().unwrap();
        let sent = client.send(ours[origin].clone(), Intent::Write).await;
        assert!(matches!(sent, Exchange::Answered(_)), "{origin}: {sent:?}");
        let arrived = recorder.requests().pop().unwrap();
        assert_same(origin, &Arrived::read(&arrived), &their, &server);
    }
    assert_eq!(recorder.requests().len(), SAMPLE, "each was sent once");
}

/// A request as the server read it.
struct Arrived<'r> {
    line: &'r str,
    headers: BTreeMap<String, &'r str>,
    body: &'r str,
}

impl<'r> Arrived<'r> {
    fn read(request: &'r str) -> Self {
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        let (line, headers) = head.split_once("\r\n").unwrap();
        let header = |line: &'r str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value));
        Self { line, headers: headers.lines().filter_map(header).collect(), body }
    }
}

fn assert_same(origin: &str, arrived: &Arrived<'_>, their: &Value, server: &str) {
    let url = their["url"].as_str().unwrap();
    let target = url.strip_prefix(server).unwrap_or_else(|| panic!("{origin} goes to {url}"));
    assert_eq!(arrived.line, format!("{} {target} HTTP/1.1", their["method"].as_str().unwrap()), "{origin}");
    let is_json = arrived.headers.get("content-type").is_some_and(|media| media.contains("json"));
    match their["body"].as_str() {
        // The order of members is no part of JSON; everything else is.
        Some(body) if is_json => {
            let read: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{origin}: {error}"));
            assert_eq!(arrived.body, read.to_string(), "{origin}");
        }
        body => assert_eq!(arrived.body, body.unwrap_or_default(), "{origin}"),
    }
    let expected = their["headers"].as_object().unwrap();
    for (name, value) in expected {
        assert_eq!(arrived.headers.get(&name.to_lowercase()).copied(), value.as_str(), "{origin}: {name}");
    }
    let ours = ["accept", "content-length", "content-type", "host", "user-agent"];
    let is_known = |name: &String| {
        ours.contains(&name.as_str()) || expected.keys().any(|expected| expected.eq_ignore_ascii_case(name))
    };
    assert!(arrived.headers.keys().all(is_known), "{origin}: {:?}", arrived.headers);
}
