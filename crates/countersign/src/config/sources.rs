//! The `[[source]]` tables of a `countersign.toml`.
//!
//! Promises: a key that a source of this kind does not have is an error on its line, and so is a value that cannot be used.
//! Relative paths are relative to the file's folder. No secret is written in the file: `auth` names a variable or a file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use countersign_kernel::ports::{RefreshInterval, SourceConfig};
use countersign_server::wire::{
    self, CredentialPlace, McpProtocol, McpQuestions, McpSampling, SourceCredential, SourceKind, ToolSettings,
};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::file::line_at;

/// A source, and the line of its `[[source]]`.
#[derive(Debug)]
pub(super) struct SourceEntry {
    pub(super) config: SourceConfig,
    pub(super) line: usize,
}

const KEYS: &[&str] = &[
    "name",
    "kind",
    "url",
    "command",
    "folder",
    "protocol",
    "trust_annotations",
    "questions",
    "sampling",
    "roots",
    "client_roots",
    "document",
    "server",
    "variables",
    "hosts",
    "schema",
    "auth",
    "allow_private",
    "allow_hosts",
    "allow_networks",
    "proxy",
    "refresh",
    "trust_changes",
    "tools",
];
/// The keys of every kind.
const SHARED_KEYS: &[&str] = &[
    "name",
    "kind",
    "auth",
    "allow_private",
    "allow_hosts",
    "allow_networks",
    "proxy",
    "refresh",
    "trust_changes",
    "tools",
];

/// The sources of a file, and what of them makes no sense, by line. A file that is not TOML gives neither.
pub(super) fn read(text: &str, file: Option<&Path>) -> (Vec<SourceEntry>, Vec<(usize, String)>) {
    let folder = file.and_then(Path::parent).unwrap_or(Path::new(""));
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let mut reading = Reading { text, folder, errors: Vec::new() };
    let mut sources = Vec::new();
    if let Ok(document) = DeTable::parse(text)
        && let Some((key, value)) = document.get_ref().iter().find(|(key, _)| key.get_ref() == "source")
    {
        let line = line_at(text, key.span().start);
        sources = reading.sources(value.get_ref(), line);
    }
    (sources, reading.errors)
}

struct Reading<'t> {
    text: &'t str,
    folder: PathBuf,
    errors: Vec<(usize, String)>,
}

/// A value under its key.
type Pair<'t, 'v> = (&'t str, &'t Spanned<DeValue<'v>>);

impl Reading<'_> {
    fn sources(&mut self, value: &DeValue<'_>, line: usize) -> Vec<SourceEntry> {
        let mut read: Vec<SourceEntry> = Vec::new();
        let DeValue::Array(tables) = value else {
            self.errors.push((line, "source is a list of tables: write [[source]]".to_owned()));
            return read;
        };
        for table in tables {
            let line = line_at(self.text, table.span().start);
            let DeValue::Table(keys) = table.get_ref() else {
                self.errors.push((line, "source is a list of tables: write [[source]]".to_owned()));
                continue;
            };
            let Some(config) = self.source(keys, line) else { continue };
            if let Some(first) = read.iter().find(|other| other.config.name == config.name) {
                let reason = format!("line {} has a source {:?} already", first.line, config.name);
                self.errors.push((line, reason));
                continue;
            }
            read.push(SourceEntry { config, line });
        }
        read
    }

    /// One source; nothing where something is wrong with it.
    fn source(&mut self, table: &DeTable<'_>, line: usize) -> Option<SourceConfig> {
        let before = self.errors.len();
        let kind = self.kind(table, line);
        let name = self.name(table, line);
        let (kind, name) = (kind?, name?);
        let mut config = wire::SourceConfig::new(name, kind);
        for (key, value) in table {
            let line = line_at(self.text, key.span().start);
            let set = self.set(&mut config, (key.get_ref(), value));
            self.errors.extend(set.err().map(|reason| (line, reason)));
        }
        if self.errors.len() > before {
            return None;
        }
        let config = SourceConfig::try_from(config);
        config.map_err(|error| self.errors.push((line, error.to_string()))).ok()
    }

    fn kind(&mut self, table: &DeTable<'_>, line: usize) -> Option<SourceKind> {
        let kind = match table.get("kind").and_then(|kind| kind.get_ref().as_str()) {
            Some("mcp") => return Some(SourceKind::Mcp),
            Some("openapi") => return Some(SourceKind::OpenApi),
            Some("graphql") => return Some(SourceKind::GraphQl),
            other => other,
        };
        let line = table.get("kind").map_or(line, |kind| line_at(self.text, kind.span().start));
        let given = kind.map(|kind| format!("{kind:?} is no kind of source; ")).unwrap_or_default();
        self.errors.push((line, format!("{given}write kind = \"mcp\", \"openapi\" or \"graphql\"")));
        None
    }

    fn name(&mut self, table: &DeTable<'_>, line: usize) -> Option<String> {
        let name = table.get("name").and_then(|name| name.get_ref().as_str()).unwrap_or_default();
        let is_segment = name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if is_segment {
            return Some(name.to_owned());
        }
        let line = table.get("name").map_or(line, |name| line_at(self.text, name.span().start));
        let reason = "a source needs a name of lower-case letters, digits and _, such as name = \"github\": its tools' paths \
                      begin with it";
        self.errors.push((line, reason.to_owned()));
        None
    }

    fn set(&self, config: &mut wire::SourceConfig, (key, value): Pair<'_, '_>) -> Result<(), String> {
        if !KEYS.contains(&key) {
            return Err(format!("there is no key `source.{key}`; there are {}", KEYS.join(", ")));
        }
        let field = match key {
            "trust_annotations" => "trustAnnotations",
            "client_roots" => "clientRoots",
            key => key,
        };
        if !SHARED_KEYS.contains(&key) && !config.kind.fields().contains(&field) {
            return Err(format!("a source of kind {} has no `{key}`", config.kind.as_str()));
        }
        let pair = (key, value);
        match key {
            "url" => config.url = Some(url(pair)?),
            "server" => config.server = Some(url(pair)?),
            "document" => config.document = Some(self.document(pair)?),
            "schema" => config.schema = Some(self.path(pair)?),
            "folder" => config.folder = Some(self.path(pair)?),
            "command" => config.command = texts(pair)?,
            "hosts" => config.hosts = texts(pair)?,
            "variables" => config.variables = map(pair)?,
            "protocol" => config.protocol = Some(protocol(pair)?),
            "trust_annotations" => config.trust_annotations = truth(pair)?,
            "questions" => config.questions = Some(questions(pair)?),
            "sampling" => config.sampling = Some(sampling(pair)?),
            "roots" => config.roots = self.paths(pair)?,
            "client_roots" => config.client_roots = truth(pair)?,
            "allow_private" => config.allow_private = truth(pair)?,
            "allow_hosts" => config.allow_hosts = texts(pair)?,
            "allow_networks" => config.allow_networks = texts(pair)?,
            "proxy" => config.proxy = Some(url(pair)?),
            "refresh" => config.refresh = Some(interval(pair)?),
            "trust_changes" => config.trust_changes = truth(pair)?,
            "tools" => config.tools = tools(pair)?,
            "auth" => match provider(value)? {
                Some(provider) => config.provider = Some(provider),
                None => config.credentials = self.auth(value)?,
            },
            // Name and kind were read before.
            _ => {}
        }
        Ok(())
    }

    /// A URL as it is; a path below the file's folder.
    fn document(&self, pair: Pair<'_, '_>) -> Result<String, String> {
        if is_url(text(pair)?) { url(pair) } else { self.path(pair) }
    }

    fn path(&self, pair: Pair<'_, '_>) -> Result<String, String> {
        self.below((pair.0, text(pair)?))
    }

    fn paths(&self, pair: Pair<'_, '_>) -> Result<Vec<String>, String> {
        texts(pair)?.iter().map(|path| self.below((pair.0, path))).collect()
    }

    /// A path below the file's folder, or a whole one.
    fn below(&self, (key, path): (&str, &str)) -> Result<String, String> {
        if path.trim().is_empty() {
            return Err(format!("{key} is empty"));
        }
        if path.starts_with('~') {
            return Err(format!("{path:?}: `~` is not expanded here; write the whole path"));
        }
        Ok(self.folder.join(path).to_string_lossy().into_owned())
    }

    /// `{ bearer_env = "X" }`, `{ bearer_file = "x" }`, or one or several of `{ as = "header", name = "X-Api-Key", env = "KEY" }`.
    fn auth(&self, value: &Spanned<DeValue<'_>>) -> Result<Vec<SourceCredential>, String> {
        match value.get_ref() {
            DeValue::Table(table) => self.credential(table).map(|one| vec![one]),
            DeValue::Array(items) => items
                .iter()
                .map(|item| match item.get_ref() {
                    DeValue::Table(table) => self.credential(table),
                    _ => Err(AUTH_FORMS.to_owned()),
                })
                .collect(),
            _ => Err(AUTH_FORMS.to_owned()),
        }
    }

    fn credential(&self, table: &DeTable<'_>) -> Result<SourceCredential, String> {
        let keys: BTreeSet<&str> = table.keys().map(|key| key.get_ref().as_ref()).collect();
        let given =
            |key: &str| table.get(key).map(|value| text_of(&format!("auth.{key}"), value)).transpose();
        let file =
            |key: &str| table.get(key).map(|value| self.path((&format!("auth.{key}"), value))).transpose();
        let is_short = keys.contains("bearer_env") || keys.contains("bearer_file");
        let known: &[&str] =
            if is_short { &["bearer_env", "bearer_file"] } else { &["as", "name", "user", "env", "file"] };
        if let Some(unknown) = keys.iter().find(|key| !known.contains(key)) {
            return Err(format!("there is no key `auth.{unknown}` here; {AUTH_FORMS}"));
        }
        if is_short {
            let (env, file) = (given("bearer_env")?, file("bearer_file")?);
            return Ok(SourceCredential { goes: CredentialPlace::Bearer, user: None, name: None, env, file });
        }
        let goes = match given("as")?.as_deref() {
            Some("bearer") => CredentialPlace::Bearer,
            Some("basic") => CredentialPlace::Basic,
            Some("header") => CredentialPlace::Header,
            Some("query") => CredentialPlace::Query,
            Some("variable") => CredentialPlace::Variable,
            Some(other) => {
                return Err(format!(
                    "auth.as cannot be {other:?}; there are \"bearer\", \"basic\", \"header\", \"query\" and \"variable\""
                ));
            }
            None => return Err(AUTH_FORMS.to_owned()),
        };
        Ok(SourceCredential {
            goes,
            user: given("user")?,
            name: given("name")?,
            env: given("env")?,
            file: file("file")?,
        })
    }
}

const AUTH_FORMS: &str = "write auth = { bearer_env = \"VARIABLE\" }, { bearer_file = \"FILE\" }, { provider = \"github\" }, or \
                          a list of { as = \"header\", name = \"X-Api-Key\", env = \"VARIABLE\" }";

/// The provider that `{ provider = "github" }` names: whose connections the calls are to use.
fn provider(value: &Spanned<DeValue<'_>>) -> Result<Option<String>, String> {
    let DeValue::Table(table) = value.get_ref() else { return Ok(None) };
    let Some(named) = table.get("provider") else { return Ok(None) };
    match text(("auth.provider", named))? {
        "" => Err("auth.provider is empty".to_owned()),
        _ if table.len() > 1 => Err("auth has either a provider or a credential, not both".to_owned()),
        name => Ok(Some(name.to_owned())),
    }
}

fn tools((key, value): Pair<'_, '_>) -> Result<ToolSettings, String> {
    let DeValue::Table(table) = value.get_ref() else {
        return Err(format!("{key} must be a table, such as {{ include = [\"issues.*\"] }}"));
    };
    let mut settings = ToolSettings::default();
    for (name, value) in table {
        let full = format!("tools.{}", name.get_ref());
        let pair = (full.as_str(), value);
        match name.get_ref().as_ref() {
            "include" => settings.include = texts(pair)?,
            "exclude" => settings.exclude = texts(pair)?,
            "read_only" => settings.read_only = texts(pair)?,
            "writes" => settings.writes = texts(pair)?,
            "destructive" => settings.destructive = texts(pair)?,
            "idempotent" => settings.idempotent = texts(pair)?,
            "names" => settings.names = map(pair)?,
            other => {
                return Err(format!(
                    "there is no key `tools.{other}`; there are include, exclude, read_only, writes, destructive, \
                     idempotent and names"
                ));
            }
        }
    }
    Ok(settings)
}

fn protocol(pair: Pair<'_, '_>) -> Result<McpProtocol, String> {
    match text(pair)? {
        "auto" => Ok(McpProtocol::Auto),
        "legacy" => Ok(McpProtocol::Legacy),
        "modern" => Ok(McpProtocol::Modern),
        other => Err(format!("protocol cannot be {other:?}; there are \"auto\", \"legacy\" and \"modern\"")),
    }
}

fn questions(pair: Pair<'_, '_>) -> Result<McpQuestions, String> {
    match text(pair)? {
        "ask" => Ok(McpQuestions::Ask),
        "refuse" => Ok(McpQuestions::Refuse),
        other => Err(format!("questions cannot be {other:?}; there are \"ask\" and \"refuse\"")),
    }
}

fn sampling(pair: Pair<'_, '_>) -> Result<McpSampling, String> {
    match text(pair)? {
        "refuse" => Ok(McpSampling::Refuse),
        "client" => Ok(McpSampling::Client),
        other => Err(format!("sampling cannot be {other:?}; there are \"refuse\" and \"client\"")),
    }
}

fn interval(pair: Pair<'_, '_>) -> Result<String, String> {
    let text = text(pair)?;
    text.parse::<RefreshInterval>().map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// Whether a document is behind a URL. Everything else is a file.
pub(crate) fn is_url(text: &str) -> bool {
    text.starts_with("https://") || text.starts_with("http://")
}

fn url(pair: Pair<'_, '_>) -> Result<String, String> {
    let text = text(pair)?;
    let parsed = reqwest::Url::parse(text).ok().filter(|url| is_url(text) && url.has_host());
    match parsed {
        Some(url) if url.username().is_empty() && url.password().is_none() => Ok(text.to_owned()),
        Some(_) => Err(format!("{} must not contain a user or password; name them with `auth`", pair.0)),
        None => Err(format!("{text:?} is no URL; write something like \"https://api.example.com\"")),
    }
}

fn text<'t>((key, value): Pair<'t, '_>) -> Result<&'t str, String> {
    value.get_ref().as_str().ok_or_else(|| format!("{key} must be a string, in quotes"))
}

fn text_of(key: &str, value: &Spanned<DeValue<'_>>) -> Result<String, String> {
    text((key, value)).map(ToOwned::to_owned)
}

fn texts((key, value): Pair<'_, '_>) -> Result<Vec<String>, String> {
    let wrong = || format!("{key} must be a list of strings, such as [\"a\"]");
    let DeValue::Array(items) = value.get_ref() else { return Err(wrong()) };
    items.iter().map(|item| item.get_ref().as_str().map(ToOwned::to_owned).ok_or_else(wrong)).collect()
}

fn map((key, value): Pair<'_, '_>) -> Result<BTreeMap<String, String>, String> {
    let wrong = || format!("{key} must be a table of strings, such as {{ a = \"b\" }}");
    let DeValue::Table(table) = value.get_ref() else { return Err(wrong()) };
    let pair = |(name, value): (&Spanned<toml::de::DeString<'_>>, &Spanned<DeValue<'_>>)| {
        let value = value.get_ref().as_str().ok_or_else(wrong)?;
        Ok((name.get_ref().to_string(), value.to_owned()))
    };
    table.iter().map(pair).collect()
}

fn truth((key, value): Pair<'_, '_>) -> Result<bool, String> {
    value.get_ref().as_bool().ok_or_else(|| format!("{key} must be true or false, without quotes"))
}

#[cfg(test)]
mod tests {
    use countersign_kernel::ports::{self, CredentialConfig, SecretPlace};

    use super::*;

    const EVERY_KEY: &str = r#"
[[source]]
name = "github"
kind = "openapi"
document = "github.json"
server = "https://api.github.com"
variables = { region = "eu" }
hosts = ["uploads.github.com"]
auth = { bearer_env = "GH_TOKEN" }
allow_private = true
allow_hosts = ["db.lan"]
allow_networks = ["10.1.0.0/16"]
proxy = "http://proxy.example:3128"
refresh = "1h"
trust_changes = true
tools = { include = ["issues.*"], exclude = ["issues.lock"], read_only = ["issues.list"], writes = ["a"], destructive = ["b"], idempotent = ["c"], names = { getIssue = "issues.get" } }

[[source]]
name = "files"
kind = "mcp"
command = ["files-server", "/srv"]
folder = "work"
protocol = "legacy"
trust_annotations = true
questions = "refuse"
sampling = "client"
roots = ["docs", "/srv"]
refresh = "never"
auth = [{ as = "variable", name = "TOKEN", file = "token" }]

[[source]]
name = "shop"
kind = "graphql"
url = "https://shop.example/graphql/"
schema = "/abs/shop.graphql"
auth = [{ as = "header", name = "X-Api-Key", env = "KEY" }, { as = "basic", user = "ann", env = "PW" }]

[[source]]
name = "hub"
kind = "graphql"
url = "https://hub.example/graphql"
auth = { provider = "github" }
"#;

    fn of(text: &str) -> (Vec<SourceConfig>, Vec<(usize, String)>) {
        let (sources, errors) = read(text, Some(Path::new("/etc/cs/countersign.toml")));
        (sources.into_iter().map(|source| source.config).collect(), errors)
    }

    #[track_caller]
    fn sound(text: &str) -> Vec<SourceConfig> {
        let (sources, errors) = of(text);
        assert!(errors.is_empty(), "{errors:?}");
        sources
    }

    #[test]
    fn every_key_of_every_kind_is_read_and_paths_are_relative_to_the_file() {
        let sources = sound(EVERY_KEY);
        let [github, files, shop, hub] = &sources[..] else { panic!("{sources:?}") };
        let ports::SourceKind::OpenApi { document, server, variables, hosts } = &github.kind else {
            panic!("{github:?}")
        };
        assert_eq!(
            (document.as_str(), server.as_deref()),
            ("/etc/cs/github.json", Some("https://api.github.com"))
        );
        assert_eq!((variables["region"].as_str(), hosts.len()), ("eu", 1));
        assert!(github.allow_private && github.trust_changes && !files.trust_changes);
        assert_eq!(github.tools.names["getIssue"], "issues.get");
        assert_eq!(github.tools.exclude, ["issues.lock"]);
        assert_eq!(github.tools.idempotent, ["c"]);
        assert_eq!(
            (&github.allow_hosts[..], &github.allow_networks[..]),
            (&["db.lan".into()][..], &["10.1.0.0/16".into()][..])
        );
        assert_eq!(github.proxy.as_deref(), Some("http://proxy.example:3128"));
        let intervals = [github, files, shop].map(|source| source.refresh.to_string());
        assert_eq!(intervals, ["1h", "never", "15m"]);
        assert_eq!((hub.provider.as_deref(), hub.credentials.len()), (Some("github"), 0));
        let env = |name: &str| SecretPlace::Env(name.to_owned());
        let bearer = CredentialConfig { goes: ports::CredentialPlace::Bearer, from: env("GH_TOKEN") };
        assert_eq!(github.credentials, [bearer]);
        assert_eq!(
            files.kind,
            ports::SourceKind::Mcp {
                url: None,
                command: vec!["files-server".into(), "/srv".into()],
                folder: Some("/etc/cs/work".into()),
                protocol: ports::McpProtocol::Legacy,
                trust_annotations: true,
                questions: ports::McpQuestions::Refuse,
                sampling: ports::McpSampling::Client,
                roots: vec!["/etc/cs/docs".into(), "/srv".into()],
                client_roots: false,
            }
        );
        assert_eq!(files.credentials[0].from, SecretPlace::File("/etc/cs/token".into()));
        let url = "https://shop.example/graphql/".to_owned();
        assert_eq!(shop.kind, ports::SourceKind::GraphQl { url, schema: Some("/abs/shop.graphql".into()) });
        assert_eq!(shop.credentials.len(), 2);
    }

    #[test]
    fn what_is_wrong_with_a_source_is_said_with_its_line() {
        for (text, line, said) in [
            ("source = 1", 1, "[[source]]"),
            ("[[source]]\nkind = \"mcp\"", 1, "needs a name"),
            ("[[source]]\nkind = \"mcp\"\nname = \"Git-Hub\"", 3, "lower-case"),
            ("[[source]]\nname = \"a\"", 1, "write kind ="),
            ("[[source]]\nname = \"a\"\nkind = \"soap\"", 3, "\"soap\" is no kind"),
            ("[[source]]\nname = \"a\"\nkind = \"mcp\"", 1, "either `url` or `command`"),
            ("[[source]]\nname = \"a\"\nkind = \"mcp\"\nurl = \"x\"", 4, "is no URL"),
            (
                "[[source]]\nname = \"a\"\nkind = \"mcp\"\nurl = \"https://u:p@x.example\"",
                4,
                "user or password",
            ),
            ("[[source]]\nname = \"a\"\nkind = \"mcp\"\ndocument = \"x\"", 4, "kind mcp has no `document`"),
            ("[[source]]\nname = \"a\"\nkind = \"graphql\"\nurll = \"x\"", 4, "no key `source.urll`"),
            ("[[source]]\nname = \"a\"\nkind = \"mcp\"\ncommand = \"x\"", 4, "list of strings"),
            ("[[source]]\nname = \"a\"\nkind = \"mcp\"\nprotocol = \"new\"", 4, "\"modern\""),
            ("[[source]]\nname = \"a\"\nkind = \"mcp\"\nallow_private = \"no\"", 4, "true or false"),
            (
                "[[source]]\nname = \"a\"\nkind = \"mcp\"\ntools = { readonly = [] }",
                4,
                "no key `tools.readonly`",
            ),
            (
                "[[source]]\nname = \"a\"\nkind = \"mcp\"\ncommand = [\"x\"]\nauth = { provider = \"github\" }",
                1,
                "not for `command`",
            ),
            (
                "[[source]]\nname = \"a\"\nkind = \"mcp\"\nauth = { provider = \"github\", bearer_env = \"X\" }",
                4,
                "not both",
            ),
            ("[[source]]\nname = \"a\"\nkind = \"mcp\"\nrefresh = \"often\"", 4, "or \"never\""),
            ("[[source]]\nname = \"a\"\nkind = \"mcp\"\nrefresh = \"1s\"", 4, "too short"),
            ("[[source]]\nname = \"a\"\nkind = \"mcp\"\nquestions = \"no\"", 4, "\"refuse\""),
            ("[[source]]\nname = \"a\"\nkind = \"mcp\"\nsampling = \"model\"", 4, "\"client\""),
            ("[[source]]\nname = \"a\"\nkind = \"graphql\"\nclient_roots = true", 4, "has no `client_roots`"),
            (
                "[[source]]\nname = \"a\"\nkind = \"mcp\"\ncommand = [\"x\"]\nroots = [\"/srv\"]\nclient_roots = true",
                1,
                "either `roots` or `clientRoots`",
            ),
            ("[[source]]\nname = \"a\"\nkind = \"graphql\"\nroots = [\"/srv\"]", 4, "has no `roots`"),
            ("[[source]]\nname = \"a\"\nkind = \"mcp\"\nproxy = \"proxy:3128\"", 4, "is no URL"),
            (
                "[[source]]\nname = \"a\"\nkind = \"mcp\"\nauth = { token = \"secret\" }",
                4,
                "no key `auth.token`",
            ),
            ("[[source]]\nname = \"a\"\nkind = \"mcp\"\nauth = \"secret\"", 4, "bearer_env"),
            (
                "[[source]]\nname = \"a\"\nkind = \"graphql\"\nurl = \"https://x\"\nschema = \"~/x\"",
                5,
                "whole path",
            ),
        ] {
            let (sources, errors) = of(text);
            assert!(sources.is_empty(), "{text}");
            assert!(errors.iter().any(|(at, why)| *at == line && why.contains(said)), "{text}\n{errors:?}");
        }
    }

    #[test]
    fn two_sources_cannot_have_one_name() {
        let one = "[[source]]\nname = \"a\"\nkind = \"mcp\"\ncommand = [\"x\"]\n";
        let (sources, errors) = of(&format!("{one}{one}"));
        assert_eq!(sources.len(), 1);
        assert_eq!(errors, [(5, "line 1 has a source \"a\" already".to_owned())]);
    }
}
