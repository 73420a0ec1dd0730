//! Lists of sources that change while official clients are connected.

use std::path::Path;

use serde_json::{Value, json};

use crate::client::{Era, in_every_era};
use crate::node::toolbox;
use crate::server::{PROGRAM, Server};

in_every_era!(
    a_resource_that_a_server_adds_is_announced_and_read,
    resources_and_prompts_of_a_new_source_are_announced,
);

fn a_resource_that_a_server_adds_is_announced_and_read(era: Era) {
    let server = Server::of(Path::new(PROGRAM), &[]);
    let script = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    server.add_mcp_source("everything", &["--trust-annotations"], &toolbox().server(script, &["stdio"]));
    let mut client = server.watching_client(era);
    let mut made = 0;
    client.sees_changed("resources", |client| {
        made += 1;
        let name = format!("made-{made}.gz");
        let arguments = json!({ "name": name, "data": "data:text/plain,x", "outputType": "resource" });
        let result = client.call("everything__gzip_file_as_resource", &arguments);
        assert!(result["isError"].is_null(), "{result}");
    });
    let uri = "everything+demo://resource/session/made-1.gz";
    let listed = client.ask("listResources", &Value::Null);
    let listed = listed["result"]["resources"].as_array().unwrap().iter().any(|one| one["uri"] == uri);
    assert!(listed, "it is listed");
    let read = client.ask("readResource", &json!({ "uri": uri }));
    assert_eq!(read["result"]["contents"][0]["mimeType"], "application/gzip", "{read}");
}

fn resources_and_prompts_of_a_new_source_are_announced(era: Era) {
    let server = Server::of(Path::new(PROGRAM), &[]);
    let mut client = server.watching_client(era);
    for list in ["resources", "prompts", "tools"] {
        let mut is_there = false;
        client.sees_changed(list, |_| {
            match is_there {
                true => server.remove_source("shows"),
                false => server.add_mcp_source("shows", &[], &toolbox().server("shows.mjs", &[])),
            }
            is_there = !is_there;
        });
        if is_there {
            server.remove_source("shows");
        }
    }
}
