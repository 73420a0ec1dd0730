//! Published documents, whole: every operation is callable or listed, and every schema compiles.

use std::collections::BTreeMap;

use countersign_sources::openapi::{Dialect, Document, Mapped, Options};
use serde_json::json;

use crate::npm;

const GITHUB: &str = "@octokit/openapi/generated/api.github.com.json";

/// OpenShift's document, with Kubernetes' in it; the package has it packed.
pub(crate) fn openshift_text() -> String {
    let program = "process.stdout.write(require('zlib').gunzipSync(require('fs').readFileSync(\
                   'node_modules/openshift-rest-client/lib/specs/openshift-openapi-spec.json.gz')))";
    npm::node(program, "")
}

pub(crate) fn github() -> Document {
    Document::parse(&npm::read(GITHUB)).unwrap()
}

pub(crate) fn at(server: &str) -> Options {
    Options { server: Some(server.to_owned()), ..Options::default() }
}

fn assert_whole(mapped: &Mapped, operations: usize) {
    let tools = mapped.offer.tools.len();
    let unmapped = mapped.offer.unmapped.len();
    assert_eq!(tools + unmapped, operations, "every operation is a tool or listed");
    assert!(unmapped * 100 <= operations, "at most 1 % unmapped: {:#?}", mapped.offer.unmapped);
    assert_eq!(mapped.operations.len(), tools);
    for tool in &mapped.offer.tools {
        jsonschema::draft202012::new(&tool.input_schema.to_value())
            .unwrap_or_else(|error| panic!("{}: {error}", tool.name));
        if let Some(output) = &tool.output_schema {
            jsonschema::draft202012::new(&output.to_value())
                .unwrap_or_else(|error| panic!("{}: {error}", tool.name));
        }
    }
    assert_names(mapped);
}

fn assert_names(mapped: &Mapped) {
    let names: BTreeMap<&str, &str> =
        mapped.offer.tools.iter().map(|tool| (tool.name.as_str(), tool.origin.as_str())).collect();
    assert_eq!(names.len(), mapped.offer.tools.len(), "names are unique");
    for name in names.keys() {
        countersign_sdk::ToolPath::parse(&format!("source.{name}")).unwrap();
        for (at, _) in name.match_indices('.') {
            assert!(!names.contains_key(&name[..at]), "{name} stands below a tool");
        }
    }
}

#[test]
fn every_operation_of_github_is_callable_or_listed() {
    let document = github();
    assert_eq!(document.dialect(), Dialect::OpenApi30);
    let mapped = document.map(&Options::default());
    assert_whole(&mapped, 1223);
}

#[test]
fn every_operation_of_openshift_is_callable_or_listed() {
    let document = Document::parse(openshift_text().as_bytes()).unwrap();
    assert_eq!(document.dialect(), Dialect::Swagger2);
    let mapped = document.map(&at("https://openshift.example"));
    assert_whole(&mapped, 1201);
    assert!(mapped.offer.unmapped.iter().all(|one| one.reason.contains("not offered as tools")));
    let runs_in_pod = "GET /api/v1/namespaces/{namespace}/pods/{name}/exec";
    let tool = mapped.offer.tools.iter().find(|tool| tool.origin == runs_in_pod).unwrap();
    assert!(tool.effects.destructive, "a GET that runs a command in a pod reads nothing");
}

#[test]
fn documents_of_every_version_and_format_map_whole() {
    for (path, dialect, operations) in [
        ("@figma/rest-api-spec/openapi/openapi.yaml", Dialect::OpenApi31, 54),
        ("@gitbook/api/spec/openapi.yaml", Dialect::OpenApi31, 377),
        ("@gitbook/api/spec/openapi.json", Dialect::OpenApi31, 377),
        ("@notionhq/notion-mcp-server/scripts/notion-openapi.json", Dialect::OpenApi31, 24),
        ("@netlify/open-api/dist/swagger.json", Dialect::Swagger2, 181),
    ] {
        let document = Document::parse(&npm::read(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(document.dialect(), dialect, "{path}");
        let mapped = document.map(&Options::default());
        assert_whole(&mapped, operations);
        assert!(mapped.offer.unmapped.is_empty(), "{path}: {:?}", mapped.offer.unmapped);
    }
}

#[test]
fn the_same_document_in_json_and_yaml_offers_the_same() {
    let map = |path| Document::parse(&npm::read(path)).unwrap().map(&Options::default());
    assert_eq!(map("@gitbook/api/spec/openapi.json").offer, map("@gitbook/api/spec/openapi.yaml").offer);
}

#[test]
fn the_one_operation_on_another_host_needs_the_operators_consent() {
    let document = github();
    let upload = "POST /repos/{owner}/{repo}/releases/{release_id}/assets";
    let refused = document.map(&Options::default());
    assert_eq!(refused.offer.unmapped.len(), 1);
    assert_eq!(refused.offer.unmapped[0].origin, upload);
    let allowed = Options { allowed_hosts: vec!["uploads.github.com".into()], ..Options::default() };
    let allowed = document.map(&allowed);
    let operation = allowed.operations.values().find(|operation| operation.origin() == upload).unwrap();
    let arguments = json!({
        "owner": "o", "repo": "r", "release_id": 1, "name": "a b.zip",
        "body": { "base64": "AAEC", "contentType": "application/zip" },
    });
    let request = operation.request(&arguments).unwrap();
    assert_eq!(request.url, "https://uploads.github.com/repos/o/r/releases/1/assets?name=a%20b.zip");
    assert_eq!(request.body.as_deref(), Some(&[0, 1, 2][..]));
    assert_eq!(request.header("content-type"), Some("application/zip"));
}

#[test]
fn every_example_of_readme_is_read() {
    let listed = npm::node(
        "const fs=require('fs'),p=require('path'),r='node_modules/@readme/oas-examples';const f=[];\
         for(const v of ['2.0','3.0','3.1'])for(const k of ['json','yaml'])\
         for(const n of fs.readdirSync(p.join(r,v,k)))f.push(p.join('@readme/oas-examples',v,k,n));\
         process.stdout.write(f.join('\\n'))",
        "",
    );
    let mut tools = 0;
    for path in listed.lines().filter(|path| path.ends_with(".json") || path.ends_with(".yaml")) {
        let document = Document::parse(&npm::read(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        let mapped = document.map(&at("https://readme.example"));
        assert_names(&mapped);
        for tool in &mapped.offer.tools {
            jsonschema::draft202012::new(&tool.input_schema.to_value())
                .unwrap_or_else(|error| panic!("{path}: {error}"));
        }
        tools += mapped.offer.tools.len();
    }
    assert!(tools > 400, "{tools}");
}
