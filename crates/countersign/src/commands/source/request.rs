//! The configuration that `source add` sends, made of its flags.

use std::path::Path;

use countersign_server::wire::{
    CredentialPlace, McpProtocol, SourceConfig, SourceCredential, SourceKind, ToolSettings,
};

use crate::args::{
    AddGraphQlArgs, AddMcpArgs, AddOpenApiArgs, AddSourceCommand, NamedVariable, ProtocolArg, SourceFlags,
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
    let AddMcpArgs { name, url, command, protocol, trust_annotations, variable, common } = args;
    let is_started = !command.is_empty();
    if is_started && common.sends_credentials() {
        let message = "a program that is started gets its credentials as variables";
        return Err(Problem::usage(message)
            .hint("Use --variable NAME=ENVVAR instead of --bearer-…, --basic, --header and --query."));
    }
    if !is_started && !variable.is_empty() {
        return Err(Problem::usage("--variable is for a program that is started: -- COMMAND")
            .hint("Use --bearer-env ENVVAR or --header NAME=ENVVAR for a URL."));
    }
    let mut config = SourceConfig::new(name, SourceKind::Mcp);
    config.url = url;
    // The program runs where the person is who adds it, as if they had started it: its arguments may be relative.
    config.folder = is_started.then(|| absolute(Path::new("."))).transpose()?;
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
    with_flags(&mut config, args.common)?;
    Ok(config)
}

fn graphql(args: AddGraphQlArgs) -> Result<SourceConfig, Problem> {
    if !is_url(&args.url) {
        let message = format!("{:?} is no URL of a GraphQL endpoint", args.url);
        return Err(
            Problem::usage(message).hint("Name the endpoint, and give a schema file with --schema FILE.")
        );
    }
    let mut config = SourceConfig::new(args.name, SourceKind::GraphQl);
    config.url = Some(args.url);
    config.schema = args.schema.as_deref().map(absolute).transpose()?;
    with_flags(&mut config, args.common)?;
    Ok(config)
}

fn with_flags(config: &mut SourceConfig, flags: SourceFlags) -> Result<(), Problem> {
    let SourceFlags {
        allow_private,
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
    } = flags;
    config.allow_private = allow_private;
    config.trust_changes = trust_changes;
    config.tools = ToolSettings {
        include,
        exclude,
        read_only,
        writes,
        destructive,
        idempotent,
        ..ToolSettings::default()
    };
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
            (&["openapi", "x", "f", "--bearer-env", "A", "--bearer-file", "f"], "cannot be used with"),
        ] {
            let refused = sent(words).unwrap_err();
            assert!(refused.contains(said), "{words:?}: {refused}");
        }
    }
}
