//! The catalog: every tool of every source, by path.

use std::collections::HashMap;
use std::sync::Arc;

use countersign_core::digest::Fingerprint;
use countersign_sdk::{AuthProvider, Effects, Plugin, PluginError, SchemaError, Tool, ToolPath};
use serde_json::Value;

/// All tools. Cheap to share; fixed once built.
#[derive(Default)]
pub struct Catalog {
    tools: HashMap<ToolPath, Arc<CatalogTool>>,
    sorted: Vec<ToolPath>,
}

/// A registered tool: checked, fingerprinted, and knowing where it came from.
pub struct CatalogTool {
    tool: Tool,
    path: ToolPath,
    fingerprint: Fingerprint,
    source: String,
    providers: Vec<AuthProvider>,
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
        for tool in plugin.into_tools() {
            let tool = CatalogTool::new(tool, &source, &version, providers.clone()).map_err(|e| vec![e])?;
            self.sorted.push(tool.path.clone());
            self.tools.insert(tool.path.clone(), Arc::new(tool));
        }
        self.sorted.sort();
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
        self.sorted.iter().filter_map(|path| self.tools.get(path))
    }

    /// All tools behind a path, by path, whether or not there is a tool at the path itself.
    pub fn after(&self, path: &ToolPath) -> impl Iterator<Item = &Arc<CatalogTool>> {
        let start = self.sorted.partition_point(|known| known <= path);
        self.sorted.iter().skip(start).filter_map(|path| self.tools.get(path))
    }

    /// What is in a namespace, by its next segment: tools as they are called, namespaces with `.*`. Nothing where there is no
    /// such namespace.
    pub fn inside(&self, namespace: &str) -> Vec<String> {
        let mut inside = Vec::new();
        for path in &self.sorted {
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
        let fingerprint = Fingerprint::of(tool.definition(), input.json(), output.json(), source, version);
        Ok(Self { path, fingerprint, source: source.to_owned(), providers, tool })
    }

    /// The path.
    pub fn path(&self) -> &ToolPath {
        &self.path
    }

    /// What it does to the world.
    pub fn effects(&self) -> Effects {
        self.tool.definition().effects
    }

    /// What it is, as one digest.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Where it came from.
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

    /// The input schema.
    pub fn input_schema(&self) -> &Value {
        self.tool.input_schema().map_or(&Value::Null, |s| s.json())
    }

    /// The output schema.
    pub fn output_schema(&self) -> &Value {
        self.tool.output_schema().map_or(&Value::Null, |s| s.json())
    }
}
