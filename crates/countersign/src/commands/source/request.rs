//! The configuration that `source add` sends, made of its flags.

use std::collections::BTreeMap;
use std::path::Path;

use countersign_server::wire::{
    CredentialPlace, McpProtocol, McpQuestions, McpSampling, SourceConfig, SourceCredential, SourceKind,
    ToolSettings,
};

use crate::args::{
    AddGraphQlArgs, AddMcpArgs, AddOpenApiArgs, AddSourceCommand, NamedVariable, Pair, ProtocolArg,
    QuestionsArg, SamplingArg, SourceFlags,
};
use crate::config::is_url;
use crate::exit::Problem;

/// The configuration of the source that was described. Relative files become absolute: the server may run in another folder.
pub(super) fn of(command: AddSourceCommand) -> Result<SourceConfig, Problem> {
    match command {
        AddSourceCommand::Mcp(args) => mcp(args),
        AddSourceCommand::OpenApi(args) => openapi(args),
        AddSourceCommand::GraphQl(args) => graphql(args),
    }
}

fn mcp(args: AddMcpArgs) -> Result<SourceConfig, Problem> {
    let AddMcpArgs {
        name,
        url,
        command,
        protocol,
        trust_annotations,
        variable,
        folder,
        root,
        client_roots,
        sampling,
        questions,
        common,
    } = args;
    let is_started = !command.is_empty();
    if is_started && common.sends_credentials() {
        let message = "a program that is started gets its credentials as variables";
        return Err(Problem::usage(message)
            .hint("Use --variable NAME=ENVVAR instead of --bearer-…, --basic, --header and --query."));
    }
    if is_started && common.says_how_to_reach() {
        let message =
            "--proxy, --allow-host and --allow-network are for a source with a URL, not for a program";
        return Err(Problem::usage(message));
    }
    if !is_started && !variable.is_empty() {
        return Err(Problem::usage("--variable is for a program that is started: -- COMMAND")
            .hint("Use --bearer-env ENVVAR or --header NAME=ENVVAR for a URL."));
    }
    let mut config = SourceConfig::new(name, SourceKind::Mcp);
    config.url = url;
    // The program runs where the person is who adds it, as if they had started it: its arguments may be relative.
    let folder = folder.as_deref().unwrap_or(Path::new("."));
    config.folder = is_started.then(|| absolute(folder)).transpose()?;
    config.roots = root.iter().map(|root| absolute(root)).collect::<Result<_, _>>()?;
    config.client_roots = client_roots;
    config.sampling = sampling.map(|sampling| match sampling {
        SamplingArg::Refuse => McpSampling::Refuse,
        SamplingArg::Client => McpSampling::Client,
    });
    config.questions = questions.map(|questions| match questions {
        QuestionsArg::Ask => McpQuestions::Ask,
        QuestionsArg::Refuse => McpQuestions::Refuse,
    });
    config.command = command;
    config.protocol = protocol.map(|protocol| match protocol {
        ProtocolArg::Auto => McpProtocol::Auto,
        ProtocolArg::Legacy => McpProtocol::Legacy,
        ProtocolArg::Modern => McpProtocol::Modern,
    });
    config.trust_annotations = trust_annotations;
    with_flags(&mut config, common)?;
    config
        .credentials
        .extend(variable.into_iter().map(|named| from_variable(CredentialPlace::Variable, named)));
    Ok(config)
}

fn openapi(args: AddOpenApiArgs) -> Result<SourceConfig, Problem> {
    let mut config = SourceConfig::new(args.name, SourceKind::OpenApi);
    config.document = Some(match is_url(&args.document) {
        true => args.document,
        false => absolute(Path::new(&args.document))?,
    });
    config.server = args.server;
    config.hosts = args.host;
    config.variables = map(args.variable);
    with_flags(&mut config, args.common)?;
    Ok(config)
}

fn graphql(args: AddGraphQlArgs) -> Result<SourceConfig, Problem> {
    let AddGraphQlArgs { name, endpoint, server, schema, common } = args;
    let mut config = SourceConfig::new(name, SourceKind::GraphQl);
    match (is_url(&endpoint), server) {
        (true, None) => {
            config.url = Some(endpoint);
            config.schema = schema.as_deref().map(absolute).transpose()?;
        }
        (false, Some(server)) if is_url(&server) => {
            config.schema = Some(absolute(Path::new(&endpoint))?);
            config.url = Some(server);
        }
        (true, Some(_)) => {
            return Err(Problem::usage("--server is for a schema file; the URL is given already")
                .hint("Name the endpoint alone, or a schema file and --server URL."));
        }
        (false, _) => {
            let message = format!("{endpoint:?} is no URL of a GraphQL endpoint");
            return Err(Problem::usage(message)
                .hint("Name the endpoint. Where that is a schema file, say where the endpoint is with --server URL."));
        }
    }
    with_flags(&mut config, common)?;
    Ok(config)
}

fn with_flags(config: &mut SourceConfig, flags: SourceFlags) -> Result<(), Problem> {
    let SourceFlags {
        allow_private,
        allow_host,
        allow_network,
        proxy,
        refresh,
        trust_changes,
        bearer_env,
        bearer_file,
        header,
        basic,
        query,
        include,
        exclude,
        read_only,
        writes,
        destructive,
        idempotent,
        tool_name,
    } = flags;
    config.allow_private = allow_private;
    (config.allow_hosts, config.allow_networks) = (allow_host, allow_network);
    (config.proxy, config.refresh) = (proxy, refresh);
    config.trust_changes = trust_changes;
    config.tools =
        ToolSettings { include, exclude, read_only, writes, destructive, idempotent, names: map(tool_name) };
    if bearer_env.is_some() || bearer_file.is_some() {
        let file = bearer_file.as_deref().map(absolute).transpose()?;
        let goes = CredentialPlace::Bearer;
        config.credentials.push(SourceCredential { goes, user: None, name: None, env: bearer_env, file });
    }
    if let Some(NamedVariable { name, variable }) = basic {
        let goes = CredentialPlace::Basic;
        let (user, env) = (Some(name), Some(variable));
        config.credentials.push(SourceCredential { goes, user, name: None, env, file: None });
    }
    for (place, named) in [(CredentialPlace::Header, header), (CredentialPlace::Query, query)] {
        config.credentials.extend(named.into_iter().map(|named| from_variable(place, named)));
    }
    Ok(())
}

fn map(pairs: Vec<Pair>) -> BTreeMap<String, String> {
    pairs.into_iter().map(|Pair { name, value }| (name, value)).collect()
}

fn from_variable(goes: CredentialPlace, named: NamedVariable) -> SourceCredential {
    SourceCredential { goes, user: None, name: Some(named.name), env: Some(named.variable), file: None }
}

fn absolute(file: &Path) -> Result<String, Problem> {
    let whole = std::path::absolute(file)
        .map_err(|error| Problem::usage(format!("{} is no path: {error}", file.display())))?;
    let text = whole.to_str().map(ToOwned::to_owned);
    text.ok_or_else(|| Problem::usage(format!("{} is not valid Unicode; rename it", file.display())))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use serde_json::{Value, json};

    use super::*;
    use crate::args::{Cli, Command, SourceCommand};

    /// What `source add` with these words sends.
    fn sent(words: &[&str]) -> Result<Value, String> {
        let line = ["countersign", "source", "add"].into_iter().chain(words.iter().copied());
        let cli = Cli::try_parse_from(line).map_err(|error| error.to_string())?;
        let Command::Source(SourceCommand::Add(command)) = cli.command else { panic!("{words:?}") };
        of(*command).map(|config| json!(config)).map_err(|problem| problem.message)
    }

    #[test]
    fn every_flag_reaches_the_configuration() {
        let config = sent(&[
            "mcp",
            "files",
            "--protocol",
            "legacy",
            "--trust-annotations",
            "--trust-changes",
            "--variable",
            "T=MY_T",
            "--include",
            "read_*",
            "--exclude",
            "x",
            "--read-only",
            "read_file",
            "--",
            "files-server",
            "--root",
            "/srv",
        ]);
        assert_eq!(
            config.unwrap(),
            json!({
                "name": "files", "kind": "mcp", "command": ["files-server", "--root", "/srv"], "protocol": "legacy",
                "folder": absolute(Path::new(".")).unwrap(),
                "trustAnnotations": true, "trustChanges": true,
                "credentials": [{ "as": "variable", "name": "T", "env": "MY_T" }],
                "tools": { "include": ["read_*"], "exclude": ["x"], "readOnly": ["read_file"], "writes": [],
                           "destructive": [], "idempotent": [], "names": {} },
            })
        );
        let config = sent(&[
            "mcp",
            "local",
            "http://127.0.0.1:1/mcp",
            "--allow-private",
            "--bearer-env",
            "T",
            "--header",
            "X-Key=K",
        ])
        .unwrap();
        assert_eq!(
            (&config["url"], &config["allowPrivate"]),
            (&json!("http://127.0.0.1:1/mcp"), &json!(true))
        );
        let credentials =
            json!([{ "as": "bearer", "env": "T" }, { "as": "header", "name": "X-Key", "env": "K" }]);
        assert_eq!(config["credentials"], credentials);
    }

    #[test]
    fn several_credentials_and_every_class_of_tools_can_be_said_at_once() {
        let line = "openapi gh gh.json --basic ann=PASSWORD --query key=KEY --header X-Org=ORG --host uploads.example \
                    --writes issues.create --destructive ** --read-only issues.list";
        let config = sent(&line.split_whitespace().collect::<Vec<_>>()).unwrap();
        let credentials = json!([
            { "as": "basic", "user": "ann", "env": "PASSWORD" },
            { "as": "header", "name": "X-Org", "env": "ORG" },
            { "as": "query", "name": "key", "env": "KEY" },
        ]);
        assert_eq!(config["credentials"], credentials);
        assert_eq!(config["hosts"], json!(["uploads.example"]));
        let tools = &config["tools"];
        assert_eq!(
            (&tools["writes"], &tools["destructive"], &tools["readOnly"]),
            (&json!(["issues.create"]), &json!(["**"]), &json!(["issues.list"]))
        );
    }

    #[test]
    fn how_a_source_is_reached_and_named_can_be_said_with_flags() {
        let here = std::env::current_dir().unwrap();
        let line = "openapi gh gh.json --variable region=eu=1 --proxy http://proxy:3128 --allow-host db.lan --allow-network \
                    10.1.0.0/16 --refresh 1h --idempotent issues.put --name getIssue?a=b=issues.get";
        let config = sent(&line.split_whitespace().collect::<Vec<_>>()).unwrap();
        assert_eq!(config["variables"], json!({ "region": "eu=1" }));
        assert_eq!((&config["proxy"], &config["refresh"]), (&json!("http://proxy:3128"), &json!("1h")));
        assert_eq!(
            (&config["allowHosts"], &config["allowNetworks"]),
            (&json!(["db.lan"]), &json!(["10.1.0.0/16"]))
        );
        let tools = &config["tools"];
        assert_eq!(
            (&tools["idempotent"], &tools["names"]),
            (&json!(["issues.put"]), &json!({ "getIssue?a=b": "issues.get" }))
        );
        let line = "mcp docs --folder work --root /srv --root here --questions refuse --refresh never -- docs-server";
        let config = sent(&line.split_whitespace().collect::<Vec<_>>()).unwrap();
        assert_eq!(config["folder"], json!(here.join("work")));
        assert_eq!(config["roots"], json!(["/srv", here.join("here")]));
        assert_eq!((&config["questions"], &config["refresh"]), (&json!("refuse"), &json!("never")));
        let line = "mcp docs https://docs.example/mcp --sampling client --client-roots";
        let config = sent(&line.split_whitespace().collect::<Vec<_>>()).unwrap();
        assert_eq!((&config["sampling"], &config["clientRoots"]), (&json!("client"), &json!(true)));
        let both = "mcp docs --client-roots --root /srv -- docs-server";
        assert!(sent(&both.split_whitespace().collect::<Vec<_>>()).is_err());
        let config =
            sent(&["graphql", "shop", "s.graphql", "--server", "https://x.example/graphql"]).unwrap();
        let expected = (json!("https://x.example/graphql"), json!(here.join("s.graphql")));
        assert_eq!((&config["url"], &config["schema"]), (&expected.0, &expected.1));
    }

    #[test]
    fn a_file_is_sent_with_its_whole_path_and_a_url_as_it_is() {
        let here = std::env::current_dir().unwrap();
        let config =
            sent(&["openapi", "gh", "gh.json", "--server", "https://x.example", "--bearer-file", "t"])
                .unwrap();
        assert_eq!(config["document"], json!(here.join("gh.json")));
        assert_eq!(config["credentials"][0]["file"], json!(here.join("t")));
        let config = sent(&["openapi", "gh", "https://x.example/openapi.json"]).unwrap();
        assert_eq!(config["document"], "https://x.example/openapi.json");
        let config =
            sent(&["graphql", "shop", "https://x.example/graphql", "--schema", "s.graphql"]).unwrap();
        assert_eq!(config["schema"], json!(here.join("s.graphql")));
    }

    #[test]
    fn what_does_not_fit_together_is_refused_before_anything_is_sent() {
        for (words, said) in [
            (&["mcp", "x"][..], "<URL|COMMAND>"),
            (&["mcp", "x", "https://x", "--", "y"], "cannot be used with"),
            (&["mcp", "x", "--bearer-env", "T", "--", "y"], "as variables"),
            (&["mcp", "x", "https://x", "--variable", "A=B"], "-- COMMAND"),
            (&["mcp", "x", "https://x", "--header", "A=sk-123"], "not the secret itself"),
            (&["graphql", "x", "schema.graphql"], "is no URL"),
            (&["graphql", "x", "https://x", "--server", "https://y"], "for a schema file"),
            (&["mcp", "x", "https://x", "--root", "/srv"], "cannot be used with"),
            (&["mcp", "x", "--proxy", "http://p:1", "--", "y"], "not for a program"),
            (&["openapi", "x", "f", "--name", "getIssue"], "OPERATION=PATH"),
            (&["openapi", "x", "f", "--bearer-env", "A", "--bearer-file", "f"], "cannot be used with"),
        ] {
            let refused = sent(words).unwrap_err();
            assert!(refused.contains(said), "{words:?}: {refused}");
        }
    }
}
