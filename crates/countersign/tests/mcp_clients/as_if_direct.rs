//! Official clients at a server behind the gate see what they see at the server itself, except for what the tables below name.
//!
//! One server is published and speaks the protocol of 2025, the other one is the official SDK's of 2026-07-28 with everything
//! that servers rarely send. Each is asked by a client of every revision, directly and through the built program.

use std::path::Path;

use serde_json::{Value, json};

use crate::client::{Belongings, Client, Elicitation, Era, in_every_era};
use crate::differences::{Differences, Meant};
use crate::node::toolbox;
use crate::server::{PROGRAM, Server};
use crate::upstream::Upstream;

in_every_era!(
    the_published_everything_server_is_seen_as_if_directly,
    the_published_everything_server_over_http_is_seen_as_if_directly,
    a_server_with_everything_else_is_seen_as_if_directly,
    a_server_with_everything_else_over_http_is_seen_as_if_directly,
);

/// What the gate changes of every server.
const GATE: &[Meant] = &[
    Meant {
        things: &["getInstructions"],
        place: "",
        why: "they are the gateway's: a server's would be read as if they came from there, and nobody accepted them",
        is_so: |direct, gated| {
            text(gated).starts_with("Countersign") && !text(gated).contains("Everything") && direct != gated
        },
    },
    Meant {
        things: &["getServerCapabilities"],
        place: "/extensions",
        why: "calls that wait for a person can be followed as tasks of the gateway",
        is_so: |direct, gated| direct.is_null() && *gated == json!({ "io.modelcontextprotocol/tasks": {} }),
    },
    Meant {
        things: &["tool"],
        place: "/name",
        why: "a source's name keeps tools of several servers apart, and scripts call them by a path of words",
        is_so: |direct, gated| {
            gated.as_str().unwrap().ends_with(&format!("__{}", text(direct).replace('-', "_")))
        },
    },
    Meant {
        things: &["prompts"],
        place: "/prompts/*/name",
        why: "a source's name keeps prompts of several servers apart",
        is_so: |direct, gated| text(gated).ends_with(&format!("__{}", text(direct))),
    },
    Meant {
        things: &["resources"],
        place: "/resources/*/uri",
        why: "a source's name keeps resources of several servers apart",
        is_so: is_below_its_source,
    },
    Meant {
        things: &["templates"],
        place: "/resourceTemplates/*/uriTemplate",
        why: "what is made from a template is read under its source's name",
        is_so: is_below_its_source,
    },
    Meant {
        things: &["read"],
        place: "/contents/*/uri",
        why: "what was read under its source's name is named so",
        is_so: is_below_its_source,
    },
    Meant {
        things: &["result", "failure", "read", "read by the server's URI", "prompt"],
        place: "/_meta/countersign/executionId",
        why: "it is recorded, and found by this",
        is_so: |direct, gated| direct.is_null() && text(gated).starts_with("exec_"),
    },
    Meant {
        things: &["failure"],
        place: "/_meta/countersign/error",
        why: "failures of every kind have a code at one place",
        is_so: |direct, gated| direct.is_null() && gated["code"] == "upstream_error",
    },
    Meant {
        things: &["refusal"],
        place: "/data/code",
        why: "refusals of every kind have a word of the gateway's; the number, the message and the data are the server's",
        is_so: |direct, gated| direct.is_null() && *gated == json!("upstream_refused"),
    },
    Meant {
        things: &["refusal"],
        place: "/data/executionId",
        why: "it is recorded, and found by this",
        is_so: |direct, gated| direct.is_null() && text(gated).starts_with("exec_"),
    },
    Meant {
        things: &["tool"],
        place: "/annotations/title",
        why: "one title is pinned and shown in both places where clients look; a tool without one has its name",
        is_so: |_, gated| gated.is_string(),
    },
    Meant {
        things: &["tool"],
        place: "/outputSchema",
        why: "a call may come to wait for a person, and clients hold the answer against this schema",
        is_so: |direct, gated| {
            let own = &gated["anyOf"][0];
            own["properties"] == direct["properties"]
                && own["required"] == direct["required"]
                && own["additionalProperties"] == direct["additionalProperties"]
                && gated["$defs"] == direct["$defs"]
                && gated["anyOf"][1]["title"] == "Paused"
        },
    },
];

/// What it changes of the published server beyond that.
const EVERYTHING: &[Meant] = &[
    Meant {
        things: &["getServerCapabilities"],
        place: "/tasks",
        why: "no tool of a source is called as a task",
        is_so: |direct, gated| direct.is_object() && gated.is_null(),
    },
    Meant {
        things: &["getServerCapabilities"],
        place: "/completions",
        why: "completing arguments is not passed on",
        is_so: |direct, gated| direct.is_object() && gated.is_null(),
    },
    Meant {
        things: &["getServerCapabilities"],
        place: "/resources/subscribe",
        why: "changed lists are announced; watching one resource is not passed on",
        is_so: |direct, gated| *direct == json!(true) && gated.is_null(),
    },
    Meant {
        things: &["tool"],
        place: "",
        why: "a tool that can only be called as a task is not offered",
        is_so: |direct, gated| direct["execution"]["taskSupport"] == "required" && gated.is_null(),
    },
    Meant {
        things: &["tool"],
        place: "/execution",
        why: "no tool of a source is called as a task, which is what saying nothing means",
        is_so: |direct, gated| *direct == json!({ "taskSupport": "forbidden" }) && gated.is_null(),
    },
    Meant {
        things: &["tool"],
        place: "/annotations/readOnlyHint",
        why: "false is what saying nothing means",
        is_so: |direct, gated| *direct == json!(false) && gated.is_null(),
    },
    Meant {
        things: &["tool"],
        place: "/annotations/idempotentHint",
        why: "that a write may run twice is the operator's word alone",
        is_so: |direct, gated| *direct == json!(true) && *gated == json!(false),
    },
    Meant {
        things: &["tool"],
        place: "/inputSchema/$schema",
        why: "clients are shown one dialect, that of the protocol, and none by another name",
        is_so: |direct, gated| text(direct).contains("draft-07") && gated.is_null(),
    },
    Meant {
        things: &["wrong arguments"],
        place: "/content/*/text",
        why: "arguments are held against the pinned schema before anything is sent, and all that is wrong is said at once",
        is_so: |direct, gated| text(direct).contains("message") && text(gated).contains("message"),
    },
    Meant {
        things: &["wrong arguments"],
        place: "/_meta/countersign/error",
        why: "failures of every kind have a code at one place",
        is_so: |direct, gated| direct.is_null() && gated["code"] == "invalid_input",
    },
];

/// What a client of 2026-07-28 sees at the gate before a server that is older.
const OLDER_SERVER: &[Meant] = &[
    Meant {
        things: &["resources", "templates", "read", "read by the server's URI", "prompts"],
        place: "/ttlMs",
        why: "this era says how long an answer may be kept; where the server says nothing it is not kept",
        is_so: |direct, gated| direct.is_null() && *gated == json!(0),
    },
    Meant {
        things: &["resources", "templates", "read", "read by the server's URI", "prompts"],
        place: "/cacheScope",
        why: "what one caller may read is not for others",
        is_so: |direct, gated| direct.is_null() && *gated == json!("private"),
    },
];

/// What a client sees otherwise of a server over HTTP that says the name of the session.
const SESSIONS: &[Meant] = &[Meant {
    things: &["result"],
    place: "/content/*/text",
    why: "each client has a session of its own, and the gateway is one",
    is_so: |direct, gated| without_session(text(direct)) == without_session(text(gated)),
}];

/// What a server says, where it says "for session" and its id.
fn without_session(said: &str) -> Option<(&str, &str)> {
    let (before, after) = said.split_once("for session ")?;
    Some((before, after.split_once(' ')?.1))
}

/// What it changes of the server with everything else.
const SHOWS: &[Meant] = &[
    Meant {
        things: &["getServerCapabilities"],
        place: "/logging",
        why: "the gateway logs, whether or not a server behind it does",
        is_so: |direct, gated| direct.is_null() && gated.is_object(),
    },
    Meant {
        things: &["tool"],
        place: "/title",
        why: "a tool without a title has its name",
        is_so: |direct, gated| direct.is_null() && gated.is_string(),
    },
    Meant {
        things: &["tool"],
        place: "/icons",
        why: "no part of what a person accepts, and clients would fetch them from where the server says",
        is_so: |direct, gated| direct.is_array() && gated.is_null(),
    },
    Meant {
        things: &["tool"],
        place: "/_meta/shows.example/trace",
        why: "no part of what a person accepts, and some clients act on it",
        is_so: |_, gated| gated.is_null(),
    },
    Meant {
        things: &["tool"],
        place: "/annotations/destructiveHint",
        why: "the gate says what it goes by, also where the server says nothing: what only reads destroys nothing",
        is_so: |direct, gated| direct.is_null() && *gated == json!(false),
    },
    Meant {
        things: &["tool"],
        place: "/annotations/idempotentHint",
        why: "what saying nothing means is said, and that a write may run twice is the operator's word alone",
        is_so: |direct, gated| (direct.is_null() || *direct == json!(true)) && *gated == json!(false),
    },
    Meant {
        things: &["tool"],
        place: "/annotations/openWorldHint",
        why: "what saying nothing means is said",
        is_so: |direct, gated| direct.is_null() && *gated == json!(true),
    },
];

/// What a client of 2026-07-28 does not see at the gate of a server of that era.
const SAME_ERA: &[Meant] = &[Meant {
    things: &[
        "result",
        "failure",
        "resources",
        "templates",
        "read",
        "read by the server's URI",
        "prompts",
        "prompt",
    ],
    place: "/_meta/io.modelcontextprotocol/serverInfo",
    why: "it says who is at the other end of the connection, and that is the gateway",
    is_so: |direct, gated| direct["name"] == "shows" && gated.is_null(),
}];

fn the_published_everything_server_is_seen_as_if_directly(era: Era) {
    let script = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    let mut pair = Pair::of(era, "everything", &toolbox().server(script, &["stdio"]));
    pair.call("get-env", &json!({}));
    compare_everything(era, pair, &[]);
}

/// Each client has a process of its own: what calls make in one session is lost to the others of the same process. Their
/// variables differ by the port, so those are not compared here.
fn the_published_everything_server_over_http_is_seen_as_if_directly(era: Era) {
    let (direct, gated) = (Upstream::everything(), Upstream::everything());
    compare_everything(era, Pair::at(era, "everything", &direct.url, &gated.url), SESSIONS);
}

fn compare_everything(era: Era, mut pair: Pair, more: &[Meant]) {
    pair.server();
    pair.tools();
    let gzip = |name: &str, output: &str| json!({ "name": name, "data": "data:text/plain,hello", "outputType": output });
    for (tool, arguments) in [
        ("echo", json!({ "message": "Grüße" })),
        ("get-annotated-message", json!({ "messageType": "error" })),
        ("get-annotated-message", json!({ "messageType": "success", "includeImage": true })),
        ("get-resource-links", json!({ "count": 4 })),
        ("get-resource-reference", json!({ "resourceType": "Text", "resourceId": 3 })),
        ("get-resource-reference", json!({ "resourceType": "Blob", "resourceId": 2 })),
        ("get-resource-reference", json!({ "resourceType": "Blob", "resourceId": -2 })),
        ("get-structured-content", json!({ "location": "Chicago" })),
        ("get-sum", json!({ "a": 1, "b": 2.5 })),
        ("get-tiny-image", json!({})),
        ("gzip-file-as-resource", gzip("a.gz", "resource")),
        ("gzip-file-as-resource", gzip("b.gz", "resourceLink")),
        ("toggle-simulated-logging", json!({})),
        ("toggle-simulated-logging", json!({})),
        ("toggle-subscriber-updates", json!({})),
        ("toggle-subscriber-updates", json!({})),
        ("trigger-long-running-operation", json!({ "duration": 0.3, "steps": 3 })),
    ] {
        pair.call(tool, &arguments);
    }
    pair.call_wrongly("echo", &json!({}));
    let listed = pair.ask("resources", "listResources", &Value::Null, &Value::Null);
    let uris = listed["resources"].as_array().unwrap().iter().map(|resource| text(&resource["uri"]));
    assert!(uris.clone().any(|uri| uri.ends_with("b.gz")), "what a call made is listed: {listed}");
    for uri in uris.chain(["demo://resource/dynamic/text/1", "demo://resource/dynamic/blob/1"]) {
        pair.read(uri);
    }
    let nothing = json!({ "uri": "demo://nothing" });
    pair.ask("refusal", "readResource", &nothing, &json!({ "uri": "everything+demo://nothing" }));
    pair.ask("templates", "listResourceTemplates", &Value::Null, &Value::Null);
    pair.ask("prompts", "listPrompts", &Value::Null, &Value::Null);
    pair.prompt("prompt", "simple-prompt", &json!({}));
    pair.prompt("prompt", "args-prompt", &json!({ "city": "Bonn", "state": "NRW" }));
    pair.prompt("prompt", "resource-prompt", &json!({ "resourceType": "Blob", "resourceId": "1" }));
    pair.prompt("refusal", "args-prompt", &json!({}));
    pair.prompt("refusal", "no-such-prompt", &json!({}));
    let older = if era == Era::July2026 { OLDER_SERVER } else { &[] };
    pair.differences.are(&[GATE, EVERYTHING, older, more]);
}

fn a_server_with_everything_else_is_seen_as_if_directly(era: Era) {
    compare_shows(era, Pair::of(era, "shows", &toolbox().server("shows.mjs", &[])));
}

fn a_server_with_everything_else_over_http_is_seen_as_if_directly(era: Era) {
    let (direct, gated) = (Upstream::shows(), Upstream::shows());
    compare_shows(era, Pair::at(era, "shows", &direct.url, &gated.url));
}

fn compare_shows(era: Era, mut pair: Pair) {
    pair.server();
    pair.tools();
    let reads = ["show-blocks", "show-tree", "show-unasked-structure", "show-nothing"];
    for tool in reads.into_iter().chain(["write-something", "show-failure", "show-exception"]) {
        pair.call(tool, &json!({}));
    }
    pair.ask("resources", "listResources", &Value::Null, &Value::Null);
    pair.ask("templates", "listResourceTemplates", &Value::Null, &Value::Null);
    pair.read("file:///full.txt");
    pair.read("file:///any/x");
    pair.ask(
        "refusal",
        "readResource",
        &json!({ "uri": "file:///no" }),
        &json!({ "uri": "shows+file:///no" }),
    );
    pair.ask("prompts", "listPrompts", &Value::Null, &Value::Null);
    pair.prompt("prompt", "say", &json!({ "word": "yes" }));
    let same = if era == Era::July2026 { SAME_ERA } else { &[] };
    pair.differences.are(&[GATE, SHOWS, same]);
}

/// A client at the server itself, and one behind the gate.
struct Pair {
    direct: Client,
    gated: Client,
    source: &'static str,
    differences: Differences,
    _server: Server,
}

impl Pair {
    fn of(era: Era, source: &'static str, words: &[String]) -> Self {
        // Both processes have no variables at all: what a server is given is not what is compared here.
        let bare = ["/usr/bin/env".to_owned(), "-i".to_owned()];
        let words: Vec<String> = bare.into_iter().chain(words.iter().cloned()).collect();
        let server = Server::of(Path::new(PROGRAM), &[]);
        server.add_mcp_source(source, &["--trust-annotations"], &words);
        let direct = Client::of_another(era, Elicitation::Declared, Belongings::None, &words);
        Self::between(era, source, direct, server)
    }

    /// Of two processes of one server, each at a URL.
    fn at(era: Era, source: &'static str, direct: &str, gated: &str) -> Self {
        let server = Server::of(Path::new(PROGRAM), &[]);
        server.add_mcp_source_at(source, &["--trust-annotations"], gated);
        let direct = Client::of_another_at(era, Elicitation::Declared, direct);
        Self::between(era, source, direct, server)
    }

    fn between(era: Era, source: &'static str, direct: Client, server: Server) -> Self {
        let gated = server.client(era, Elicitation::Declared);
        Self { direct, gated, source, differences: Differences::default(), _server: server }
    }

    /// What the server says of itself.
    fn server(&mut self) {
        for method in ["getServerCapabilities", "getInstructions"] {
            let (direct, gated) =
                (self.direct.ask(method, &Value::Null), self.gated.ask(method, &Value::Null));
            self.differences.compare(method, &direct["result"], &gated["result"]);
        }
    }

    fn tools(&mut self) {
        let (direct, gated) = (self.direct.tools(), self.gated.tools());
        let mut own: Vec<&str> = gated.iter().map(|tool| text(&tool["name"])).collect();
        for tool in &direct {
            let name = self.gated_name(text(&tool["name"]));
            let shown = gated.iter().find(|shown| shown["name"] == name.as_str());
            own.retain(|own| *own != name);
            self.differences.compare("tool", tool, shown.unwrap_or(&Value::Null));
        }
        assert_eq!(own, ["run", "resume", "search_tools", "read_tool"], "the gateway's own tools");
    }

    fn call(&mut self, tool: &str, arguments: &Value) {
        let (direct, gated) = self.called(tool, arguments);
        let thing = if direct["isError"] == true { "failure" } else { "result" };
        self.differences.compare(thing, &direct, &gated);
    }

    fn call_wrongly(&mut self, tool: &str, arguments: &Value) {
        let (direct, gated) = self.called(tool, arguments);
        assert_eq!(direct["isError"], true, "{direct}");
        self.differences.compare("wrong arguments", &direct, &gated);
    }

    fn called(&mut self, tool: &str, arguments: &Value) -> (Value, Value) {
        let (direct, told) = self.direct.call_with_progress(tool, arguments);
        let (gated, gated_told) = self.gated.call_with_progress(&self.gated_name(tool), arguments);
        assert!(direct["content"].is_array(), "{tool}: {direct}");
        // The official clients lose a step that comes in one read with the answer, as it does from a process.
        let all: Vec<Value> = match arguments["steps"].as_u64() {
            Some(steps) => (1..=steps).map(|step| json!({ "progress": step, "total": steps })).collect(),
            None => vec![],
        };
        assert!(all.starts_with(&told), "{told:?}");
        assert_eq!(gated_told, all, "behind the gate every step is told");
        (direct, gated)
    }

    /// Asks both, compares the results or the refusals, and gives the direct one.
    fn ask(&mut self, thing: &str, method: &str, direct: &Value, gated: &Value) -> Value {
        let (direct, gated) = (self.direct.ask(method, direct), self.gated.ask(method, gated));
        assert_eq!(direct.get("result").is_none(), thing == "refusal", "{method}: {direct}");
        match (direct.get("result"), gated.get("result")) {
            (Some(direct), Some(gated)) => self.differences.compare(thing, direct, gated),
            _ => self.differences.compare(thing, &direct, &gated),
        }
        direct["result"].clone()
    }

    fn read(&mut self, uri: &str) {
        let (direct, named) = (json!({ "uri": uri }), format!("{}+{uri}", self.source));
        self.ask("read", "readResource", &direct, &json!({ "uri": named }));
        // A link in a result is the server's own, and can be followed as it is.
        self.ask("read by the server's URI", "readResource", &direct, &direct);
    }

    fn prompt(&mut self, thing: &str, name: &str, arguments: &Value) {
        let params = |name: &str| json!({ "name": name, "arguments": arguments });
        let gated = params(&format!("{}__{name}", self.source));
        self.ask(thing, "getPrompt", &params(name), &gated);
    }

    /// The name of a tool behind the gate.
    fn gated_name(&self, tool: &str) -> String {
        format!("{}__{}", self.source, tool.replace('-', "_"))
    }
}

fn is_below_its_source(direct: &Value, gated: &Value) -> bool {
    text(gated).split_once('+').is_some_and(|(_, uri)| uri == text(direct))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
