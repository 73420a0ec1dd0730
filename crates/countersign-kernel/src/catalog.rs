//! The catalog: every tool of every source, by path.
//!
//! A [`Catalog`] is a snapshot and never changes. The gateway swaps in another one when a source changes
//! (`catalog_change.rs`); whoever holds a snapshot keeps it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use countersign_core::digest::Fingerprint;
use countersign_core::execution::Call;
use countersign_sdk::{AuthProvider, Effects, Plugin, PluginError, Schema, SchemaError, Tool, ToolPath};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::search::SearchText;

/// How long after the start calls wait for a source that is being loaded.
const LONGEST_WAIT_FOR_SOURCES: Duration = Duration::from_secs(15);

/// All tools, as they are at one moment.
#[derive(Default, Clone)]
pub struct Catalog {
    tools: HashMap<ToolPath, Arc<CatalogTool>>,
    sorted: Vec<Arc<CatalogTool>>,
    /// Every name that was registered in this process, also those that were removed.
    sources: BTreeMap<String, SourceKind>,
}

/// The state of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SourceKind {
    /// A plugin: fixed for the life of the process.
    Plugin,
    /// A source that can be replaced.
    Replaceable,
    /// A source that was removed.
    Removed,
    /// A source that was named at the start and is not loaded yet.
    Awaited,
}

/// A registered tool: checked, fingerprinted, and knowing where it came from.
pub struct CatalogTool {
    tool: Tool,
    path: ToolPath,
    fingerprint: Fingerprint,
    source: String,
    providers: Vec<AuthProvider>,
    search_text: SearchText,
}

/// The tool for a call that was issued earlier.
pub(crate) enum Offered {
    /// The tool that the call was issued for.
    Same(Arc<CatalogTool>),
    /// Another tool under that path.
    Changed,
    /// No tool: the call's source is or was here, and does not offer it.
    Removed,
    /// No tool: the call's source is not loaded.
    NotLoaded,
}

impl Catalog {
    /// Adds a plugin's tools, or says everything that is wrong with it and adds nothing.
    pub fn register(&mut self, plugin: Plugin) -> Result<(), Vec<PluginError>> {
        plugin.check()?;
        let taken =
            plugin.tools().iter().filter_map(|t| t.path().ok()).filter(|p| self.tools.contains_key(*p));
        let taken: Vec<_> = taken.map(|p| PluginError::DuplicatePath(p.to_string())).collect();
        if !taken.is_empty() {
            return Err(taken);
        }
        let (source, version) = (plugin.id().to_owned(), plugin.code_version().to_owned());
        let providers = plugin.providers().to_vec();
        let tools = plugin.into_tools().into_iter();
        let tools = tools.map(|tool| CatalogTool::new(tool, &source, &version, providers.clone()));
        let tools: Vec<CatalogTool> = tools.collect::<Result<_, _>>().map_err(|e| vec![e])?;
        self.add(&source, SourceKind::Plugin, tools);
        Ok(())
    }

    /// The tool at a path.
    pub fn get(&self, path: &str) -> Option<&Arc<CatalogTool>> {
        // A path that does not parse names nothing.
        ToolPath::parse(path).ok().and_then(|path| self.tools.get(&path))
    }

    /// The tool at a parsed path.
    pub fn at(&self, path: &ToolPath) -> Option<&Arc<CatalogTool>> {
        self.tools.get(path)
    }

    /// All tools, by path.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<CatalogTool>> {
        self.sorted.iter()
    }

    /// All tools behind a path, by path, whether or not there is a tool at the path itself.
    pub fn after(&self, path: &ToolPath) -> impl Iterator<Item = &Arc<CatalogTool>> {
        let start = self.sorted.partition_point(|known| known.path <= *path);
        self.sorted.iter().skip(start)
    }

    /// The contents of a namespace, by the next segment: tools as they are called, namespaces with `.*`. Nothing where there is no
    /// such namespace.
    pub fn inside(&self, namespace: &str) -> Vec<String> {
        let mut inside = Vec::new();
        for path in self.sorted.iter().map(|tool| &tool.path) {
            let rest = path.as_str().strip_prefix(namespace).and_then(|rest| rest.strip_prefix('.'));
            let Some(rest) = rest.filter(|_| !namespace.is_empty()) else { continue };
            let entry = match rest.split_once('.') {
                Some((segment, _)) => format!("{namespace}.{segment}.*"),
                None => path.to_string(),
            };
            if inside.last() != Some(&entry) {
                inside.push(entry);
            }
        }
        inside
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// The state of a source; nothing where it was never registered.
    pub(crate) fn source(&self, name: &str) -> Option<SourceKind> {
        self.sources.get(name).copied()
    }

    /// The tools of one source, by path.
    pub(crate) fn of_source<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Arc<CatalogTool>> {
        self.sorted.iter().filter(move |tool| tool.source == name)
    }

    /// The tool for a call that was issued earlier, perhaps by another process.
    pub(crate) fn offered(&self, call: &Call) -> Offered {
        match (self.at(&call.path), &call.source) {
            (Some(tool), _) if tool.fingerprint == call.fingerprint => Offered::Same(Arc::clone(tool)),
            (Some(_), _) => Offered::Changed,
            (None, Some(source)) => match self.source(source) {
                None | Some(SourceKind::Awaited) => Offered::NotLoaded,
                Some(SourceKind::Plugin | SourceKind::Replaceable | SourceKind::Removed) => Offered::Removed,
            },
            (None, None) => Offered::NotLoaded,
        }
    }

    /// This catalog, with the names of sources that are to be loaded.
    pub(crate) fn awaiting(mut self, sources: impl IntoIterator<Item = String>) -> Self {
        for source in sources {
            self.sources.entry(source).or_insert(SourceKind::Awaited);
        }
        self
    }

    /// The source that a path belongs to, where it is not loaded yet.
    pub(crate) fn awaited<'a>(&self, path: &'a str) -> Option<&'a str> {
        let source = path.split('.').next()?;
        (self.source(source) == Some(SourceKind::Awaited)).then_some(source)
    }

    /// This catalog with other tools for one source.
    pub(crate) fn with_source(&self, name: &str, kind: SourceKind, tools: Vec<CatalogTool>) -> Self {
        let mut next = self.clone();
        next.tools.retain(|_, tool| tool.source != name);
        next.sorted.retain(|tool| tool.source != name);
        next.add(name, kind, tools);
        next
    }

    fn add(&mut self, source: &str, kind: SourceKind, tools: Vec<CatalogTool>) {
        self.sources.insert(source.to_owned(), kind);
        for tool in tools.into_iter().map(Arc::new) {
            self.tools.insert(tool.path.clone(), Arc::clone(&tool));
            self.sorted.push(tool);
        }
        self.sorted.sort_by(|a, b| a.path.cmp(&b.path));
    }
}

impl CatalogTool {
    /// Checks and fingerprints a tool on its own, for programs that gate tools they run themselves.
    pub fn new(
        tool: Tool,
        source: &str,
        version: &str,
        providers: Vec<AuthProvider>,
    ) -> Result<Self, PluginError> {
        let path = tool.path().map_err(|e| PluginError::Path(e.clone()))?.clone();
        let effects = tool.definition().effects;
        if effects.read_only && effects.destructive {
            return Err(PluginError::Contradiction(path.to_string()));
        }
        let unusable =
            |e: &SchemaError| PluginError::Schema { path: path.to_string(), problem: e.to_string() };
        let input = tool.input_schema().map_err(unusable)?;
        let output = tool.output_schema().map_err(unusable)?;
        let fingerprint = Fingerprint::of(tool.definition(), &input.json(), &output.json(), source, version);
        let search_text = SearchText::of(tool.definition());
        Ok(Self { path, fingerprint, source: source.to_owned(), providers, search_text, tool })
    }

    /// The path.
    pub fn path(&self) -> &ToolPath {
        &self.path
    }

    /// Its effects on the world.
    pub fn effects(&self) -> Effects {
        self.tool.definition().effects
    }

    /// The digest of its definition.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The source that it came from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The tool itself.
    pub fn tool(&self) -> &Tool {
        &self.tool
    }

    /// The providers its plugin declares.
    pub fn providers(&self) -> &[AuthProvider] {
        &self.providers
    }

    /// The input schema, parsed anew each time.
    pub fn input_schema(&self) -> Value {
        self.tool.input_schema().map_or(Value::Null, Schema::json)
    }

    /// The output schema, parsed anew each time.
    pub fn output_schema(&self) -> Value {
        self.tool.output_schema().map_or(Value::Null, Schema::json)
    }

    pub(crate) fn search_text(&self) -> &SearchText {
        &self.search_text
    }
}

/// The catalog of this moment.
pub(crate) struct CurrentCatalog {
    snapshot: watch::Sender<Arc<Catalog>>,
    /// When calls no longer wait for sources that are being loaded.
    waits_until: Instant,
    /// Held by whoever changes it: one source after the other.
    pub(crate) changing: tokio::sync::Mutex<()>,
}

impl CurrentCatalog {
    pub(crate) fn new(catalog: Catalog) -> Self {
        Self {
            snapshot: watch::Sender::new(Arc::new(catalog)),
            waits_until: Instant::now() + LONGEST_WAIT_FOR_SOURCES,
            changing: tokio::sync::Mutex::default(),
        }
    }

    /// The catalog as it is now.
    pub(crate) fn snapshot(&self) -> Arc<Catalog> {
        Arc::clone(&self.snapshot.borrow())
    }

    pub(crate) fn swap(&self, catalog: Catalog) {
        self.snapshot.send_replace(Arc::new(catalog));
    }

    /// The catalog for a call of a path. Soon after the start it waits where the path's source is being loaded.
    pub(crate) async fn for_call(&self, path: &str) -> Arc<Catalog> {
        let now = self.snapshot();
        if now.awaited(path).is_none() {
            return now;
        }
        let mut changes = self.snapshot.subscribe();
        let loaded = changes.wait_for(|catalog| catalog.awaited(path).is_none());
        match tokio::time::timeout_at(self.waits_until, loaded).await {
            Ok(Ok(catalog)) => Arc::clone(&catalog),
            Ok(Err(_)) | Err(_) => now,
        }
    }

    /// The tool at a path, as it is now.
    pub(crate) fn at(&self, path: &ToolPath) -> Option<Arc<CatalogTool>> {
        self.snapshot().at(path).cloned()
    }

    /// The current tool for a call that was issued earlier.
    pub(crate) fn offered(&self, call: &Call) -> Offered {
        self.snapshot().offered(call)
    }
}
