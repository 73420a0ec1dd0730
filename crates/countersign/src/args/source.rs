//! The flags of `source`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};

const SOURCE_EXAMPLES: &str = "\
Examples:
  countersign source add mcp files -- npx -y @modelcontextprotocol/server-filesystem /srv
  countersign source add openapi github github.json --server https://api.github.com --bearer-env GITHUB_TOKEN
  countersign source add graphql shop https://shop.example/graphql --header X-Api-Key=SHOP_KEY
  countersign source list                                     what is there, and what waits to be accepted
  countersign source show github                              its tools, and operations that cannot be tools
  countersign source refresh github                           read anew what it offers
  countersign source accept github                            see what is new and what changed, then accept it
  countersign source remove github

A source brings tools that live elsewhere. Its tools cannot be called before a person accepted their definitions, and a tool
whose definition changes afterwards cannot be called until it is accepted again. Tools that destroy still ask each time.
Sources can also be written as [[source]] in countersign.toml; those are changed there.";

#[derive(Debug, Subcommand)]
#[command(after_help = SOURCE_EXAMPLES)]
pub(crate) enum SourceCommand {
    /// Add a source; at a terminal you see first what it would bring
    #[command(subcommand)]
    Add(Box<AddSourceCommand>),
    /// List the sources, and what waits to be accepted
    List,
    /// Show one source with its tools
    Show {
        /// The source's name
        name: String,
    },
    /// Read anew what a source offers; new and changed tools wait to be accepted
    Refresh {
        /// The source's name
        name: String,
    },
    /// See what is new and what changed in a source, and accept it
    Accept(AcceptArgs),
    /// Remove a source and its tools
    Remove {
        /// The source's name
        name: String,
    },
}

const ADD_EXAMPLES: &str = "\
NAME is the first segment of the tools' paths: lower-case letters, digits and _. Files and variables are those of the
server's machine. Credentials are named, never given: --bearer-env GITHUB_TOKEN reads the variable where the server runs.
Without a terminal the source is added and its tools wait for `countersign source accept NAME`.";

#[derive(Debug, Subcommand)]
#[command(after_help = ADD_EXAMPLES)]
pub(crate) enum AddSourceCommand {
    /// An MCP server, behind a URL or started as a program
    Mcp(AddMcpArgs),
    /// A service that an OpenAPI document describes
    #[command(name = "openapi")]
    OpenApi(AddOpenApiArgs),
    /// A GraphQL endpoint
    #[command(name = "graphql")]
    GraphQl(AddGraphQlArgs),
}

const ADD_MCP_EXAMPLES: &str = "\
Examples:
  countersign source add mcp files -- npx -y @modelcontextprotocol/server-filesystem /srv
  countersign source add mcp tickets https://tickets.example/mcp --bearer-env TICKETS_TOKEN
  countersign source add mcp local http://127.0.0.1:3000/mcp --allow-private
  countersign source add mcp jira --variable JIRA_TOKEN=MY_JIRA_TOKEN -- jira-mcp
  countersign source add mcp docs --folder /srv/docs --root /srv/docs --questions refuse -- docs-server
  countersign source add mcp writer --sampling client -- writer-server     it may use the model of the client that calls";

#[derive(Debug, Args)]
#[command(
    override_usage = "countersign source add mcp [OPTIONS] NAME URL\n       countersign source add mcp [OPTIONS] NAME -- COMMAND…"
)]
#[command(after_help = ADD_MCP_EXAMPLES, group = ArgGroup::new("where").required(true).args(["url", "command"]))]
pub(crate) struct AddMcpArgs {
    /// The source's name
    pub(crate) name: String,
    /// Where it listens
    pub(crate) url: Option<String>,
    /// The program to start and its arguments, after --
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
    /// Which era of MCP to speak [default: auto]
    #[arg(long, value_name = "auto|legacy|modern")]
    pub(crate) protocol: Option<ProtocolArg>,
    /// Believe what the server says of its tools' effects: a tool it calls read-only is not asked about
    #[arg(long)]
    pub(crate) trust_annotations: bool,
    /// Set a variable of the started program from a variable of the server's environment
    #[arg(long, value_name = "NAME=ENVVAR", value_parser = named_variable)]
    pub(crate) variable: Vec<NamedVariable>,
    /// The folder that the program is started in [default: the current folder]
    #[arg(long, value_name = "DIR", conflicts_with = "url")]
    pub(crate) folder: Option<PathBuf>,
    /// Tell the started program of this folder as one of its roots
    #[arg(long, value_name = "DIR", conflicts_with = "url")]
    pub(crate) root: Vec<PathBuf>,
    /// Tell the server of the roots of the MCP client that calls it, in place of --root: an agent's client then says what a server
    /// may touch that goes by its roots
    #[arg(long, conflicts_with = "root")]
    pub(crate) client_roots: bool,
    /// Whether the server may use the model of the MCP client that calls it, where that client has one [default: refuse]
    #[arg(long, value_name = "refuse|client")]
    pub(crate) sampling: Option<SamplingArg>,
    /// Whether the server may ask people during a call; one that may not takes calls side by side [default: ask]
    #[arg(long, value_name = "ask|refuse")]
    pub(crate) questions: Option<QuestionsArg>,
    #[command(flatten)]
    pub(crate) common: SourceFlags,
}

const ADD_OPENAPI_EXAMPLES: &str = "\
Examples:
  countersign source add openapi github github.json --server https://api.github.com --bearer-env GITHUB_TOKEN
  countersign source add openapi petstore https://petstore3.swagger.io/api/v3/openapi.json
  countersign source add openapi github github.json --include 'issues.*' --read-only issues.list";

#[derive(Debug, Args)]
#[command(after_help = ADD_OPENAPI_EXAMPLES)]
pub(crate) struct AddOpenApiArgs {
    /// The source's name
    pub(crate) name: String,
    /// The OpenAPI document: a file or a URL
    #[arg(value_name = "FILE|URL")]
    pub(crate) document: String,
    /// The base URL of the service, where it is not the document's own
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// A further host that some of its operations name and that may be reached
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Vec<String>,
    /// The value of a variable in the service's base URL
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) variable: Vec<Pair>,
    #[command(flatten)]
    pub(crate) common: SourceFlags,
}

const ADD_GRAPHQL_EXAMPLES: &str = "\
Examples:
  countersign source add graphql shop https://shop.example/graphql --header X-Api-Key=SHOP_KEY
  countersign source add graphql shop shop.graphql --server https://shop.example/graphql";

#[derive(Debug, Args)]
#[command(after_help = ADD_GRAPHQL_EXAMPLES)]
pub(crate) struct AddGraphQlArgs {
    /// The source's name
    pub(crate) name: String,
    /// Where it listens; or a file with its schema (SDL or introspection), where the endpoint answers no introspection
    #[arg(value_name = "URL|FILE")]
    pub(crate) endpoint: String,
    /// Where it listens, with a schema file
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// A file with its schema, beside the URL
    #[arg(long, value_name = "FILE", conflicts_with = "server")]
    pub(crate) schema: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: SourceFlags,
}

/// Flags that every kind of source takes.
#[derive(Debug, Default, Args)]
pub(crate) struct SourceFlags {
    /// Let its address be loopback or private (never link-local or a metadata service)
    #[arg(long)]
    pub(crate) allow_private: bool,
    /// Let this host name lead to private addresses
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,
    /// Let its address be in this network, such as 10.1.0.0/16
    #[arg(long, value_name = "NETWORK")]
    pub(crate) allow_network: Vec<String>,
    /// Reach it through this proxy; none is taken from the environment
    #[arg(long, value_name = "URL")]
    pub(crate) proxy: Option<String>,
    /// How often to look whether it offers something else [default: 15m]
    #[arg(long, value_name = "DURATION|never")]
    pub(crate) refresh: Option<String>,
    /// Make new and changed tools callable without anybody accepting them
    #[arg(long)]
    pub(crate) trust_changes: bool,
    /// Send `Authorization: Bearer …` with the value of a variable of the server's environment
    #[arg(long, value_name = "ENVVAR", conflicts_with = "bearer_file", value_parser = variable)]
    pub(crate) bearer_env: Option<String>,
    /// Send `Authorization: Bearer …` with what is in a file that only its owner can read
    #[arg(long, value_name = "FILE")]
    pub(crate) bearer_file: Option<PathBuf>,
    /// Send a header with the value of a variable of the server's environment
    #[arg(long, value_name = "NAME=ENVVAR", value_parser = named_variable)]
    pub(crate) header: Vec<NamedVariable>,
    /// Send `Authorization: Basic …` for this user, with the value of a variable of the server's environment as the password
    #[arg(long, value_name = "USER=ENVVAR", conflicts_with_all = ["bearer_env", "bearer_file"], value_parser = named_variable)]
    pub(crate) basic: Option<NamedVariable>,
    /// Send a query parameter with the value of a variable of the server's environment
    #[arg(long, value_name = "NAME=ENVVAR", value_parser = named_variable)]
    pub(crate) query: Vec<NamedVariable>,
    /// Take only tools that match, such as 'issues.*'; `*` is one segment, `**` any depth
    #[arg(long, value_name = "PATTERN")]
    pub(crate) include: Vec<String>,
    /// Leave out tools that match
    #[arg(long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,
    /// Tools that match only read, whatever the source says: nobody is asked about them
    #[arg(long, value_name = "PATTERN")]
    pub(crate) read_only: Vec<String>,
    /// Tools that match write and destroy nothing: nobody is asked about them unless a rule or `approvals.writes` says so
    #[arg(long, value_name = "PATTERN")]
    pub(crate) writes: Vec<String>,
    /// Tools that match destroy, whatever else is said of them: each call waits for a person
    #[arg(long, value_name = "PATTERN")]
    pub(crate) destructive: Vec<String>,
    /// Running tools that match twice is the same as running them once: a lost answer is a failure, not a doubt
    #[arg(long, value_name = "PATTERN")]
    pub(crate) idempotent: Vec<String>,
    /// Give a tool a path of your choice below the source's name, by what it is at the source: 'GET /issues=issues.all'
    #[arg(long = "name", value_name = "OPERATION=PATH", value_parser = operation_name)]
    pub(crate) tool_name: Vec<Pair>,
}

impl SourceFlags {
    /// Whether something is said of how an address is reached.
    pub(crate) fn says_how_to_reach(&self) -> bool {
        self.proxy.is_some() || !self.allow_host.is_empty() || !self.allow_network.is_empty()
    }

    /// Whether a credential is named that goes into a request.
    pub(crate) fn sends_credentials(&self) -> bool {
        let Self { bearer_env, bearer_file, basic, header, query, .. } = self;
        bearer_env.is_some()
            || bearer_file.is_some()
            || basic.is_some()
            || !header.is_empty()
            || !query.is_empty()
    }
}

const ACCEPT_EXAMPLES: &str = "\
Examples:
  countersign source accept github                            everything that waits
  countersign source accept github github.issues.create       only this tool
  countersign source show github --json                       for programs: read it, and its digest, then
  countersign source accept github --yes --digest DIGEST";

#[derive(Debug, Args)]
#[command(after_help = ACCEPT_EXAMPLES)]
pub(crate) struct AcceptArgs {
    /// The source's name
    pub(crate) name: String,
    /// Only these tools [default: everything that waits]
    #[arg(value_name = "TOOL")]
    pub(crate) tools: Vec<String>,
    /// Accept without asking here; needs --digest
    #[arg(long, requires = "digest")]
    pub(crate) yes: bool,
    /// The digest of what you have read; something else by now is not accepted
    #[arg(long, value_name = "DIGEST")]
    pub(crate) digest: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProtocolArg {
    /// The newer one, if the server speaks it
    Auto,
    /// Up to 2025-11-25
    Legacy,
    /// From 2026-07-28
    Modern,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum QuestionsArg {
    /// It may
    Ask,
    /// It is told that nobody can be asked
    Refuse,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SamplingArg {
    /// It is told that there is no model
    Refuse,
    /// It may, during a call
    Client,
}

/// A name and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) name: String,
    pub(crate) value: String,
}

fn pair(text: &str) -> Result<Pair, String> {
    let (name, value) =
        text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or("write NAME=VALUE")?;
    Ok(Pair { name: name.to_owned(), value: value.to_owned() })
}

/// An operation may have `=` in its name, a path never has.
fn operation_name(text: &str) -> Result<Pair, String> {
    let is_whole = |(name, path): &(&str, &str)| !name.is_empty() && !path.is_empty();
    let (name, path) = text.rsplit_once('=').filter(is_whole).ok_or("write OPERATION=PATH")?;
    Ok(Pair { name: name.to_owned(), value: path.to_owned() })
}

/// A header or variable, and the variable of the server's environment that has its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedVariable {
    pub(crate) name: String,
    pub(crate) variable: String,
}

fn named_variable(text: &str) -> Result<NamedVariable, String> {
    match text.split_once('=') {
        Some((name, of)) if !name.is_empty() => {
            Ok(NamedVariable { name: name.to_owned(), variable: variable(of)? })
        }
        _ => Err("write NAME=ENVVAR, such as X-Api-Key=SHOP_KEY".to_owned()),
    }
}

/// The name of a variable. A secret in its place is refused: the server keeps what is given here, and shows it.
fn variable(text: &str) -> Result<String, String> {
    let is_name = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    match is_name {
        true => Ok(text.to_owned()),
        false => Err("name the variable that has the secret, not the secret itself".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_named_by_its_variable_and_never_given() {
        let key = NamedVariable { name: "X-Api-Key".into(), variable: "SHOP_KEY".into() };
        assert_eq!(named_variable("X-Api-Key=SHOP_KEY"), Ok(key));
        for wrong in ["X-Api-Key", "=SHOP_KEY", "X-Api-Key=", "X-Api-Key=sk-live-1234", "X=1A", "X=A B"] {
            assert!(named_variable(wrong).is_err(), "{wrong}");
        }
    }
}
