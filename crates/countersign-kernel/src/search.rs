//! Finding tools: ranked search over path, name and description, and near misses for a path that is not there.

use std::cmp::Reverse;
use std::sync::Arc;

use countersign_sdk::{Definition, ToolPath};

use crate::catalog::{Catalog, CatalogTool};

/// The most words of a query that count; the rest is ignored.
const MAX_QUERY_WORDS: usize = 16;
/// How many near misses are named.
const MAX_NEAR: usize = 3;
/// How close a near miss is at least, of 1.
const NEAR: f64 = 0.7;

/// A tool that a query found.
#[derive(Clone)]
pub struct Hit {
    /// The tool.
    pub tool: Arc<CatalogTool>,
    /// How well it fits; higher is better.
    pub score: u32,
}

/// What a word found is worth, by where it was found. A path says most, a description least.
const IN_PATH: u32 = 12;
const IN_NAME: u32 = 10;
const IN_DESCRIPTION: u32 = 5;
const WHOLE_SEGMENT: u32 = 8;

/// What a query is held against, in lower case: made once for each tool.
pub(crate) struct SearchText {
    name: String,
    description: String,
}

impl SearchText {
    pub(crate) fn of(definition: &Definition) -> Self {
        Self { name: definition.name.to_lowercase(), description: definition.description.to_lowercase() }
    }
}

impl Catalog {
    /// Tools that have every word of the query somewhere, best first, then by path. An empty query finds all.
    pub fn search(&self, query: &str, limit: usize) -> Vec<Hit> {
        let words: Vec<String> = query
            .split(|c: char| !c.is_alphanumeric())
            .filter(|w| !w.is_empty())
            .take(MAX_QUERY_WORDS)
            .map(str::to_lowercase)
            .collect();
        let scored = self.iter().filter_map(|tool| Some((score(tool, &words)?, tool)));
        let mut hits: Vec<(u32, &Arc<CatalogTool>)> = scored.collect();
        // Stable, and the catalog is sorted by path.
        hits.sort_by_key(|(score, _)| Reverse(*score));
        let hits = hits.into_iter().take(limit);
        hits.map(|(score, tool)| Hit { tool: Arc::clone(tool), score }).collect()
    }

    /// The paths that a mistyped one was perhaps meant to be, nearest first.
    pub fn near(&self, path: &str) -> Vec<ToolPath> {
        let wanted: String =
            path.chars().take(countersign_sdk::MAX_PATH_BYTES).collect::<String>().to_lowercase();
        let wanted = wanted.replace("__", ".").replace(['/', ':', '-'], ".");
        let mut near: Vec<(f64, &ToolPath)> = self
            .iter()
            .map(|tool| tool.path())
            .filter(|path| could_be_near(&wanted, path))
            .map(|path| (closeness(&wanted, path), path))
            .filter(|(closeness, _)| *closeness > NEAR)
            .collect();
        near.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        near.into_iter().take(MAX_NEAR).map(|(_, path)| path.clone()).collect()
    }
}

/// Paths of very different length are never near; comparing lengths first spares the rest the long comparison.
fn could_be_near(wanted: &str, path: &ToolPath) -> bool {
    let (wanted, path) = (wanted.chars().count(), path.as_str().len());
    let longer = wanted.max(path);
    f64::from(u32::try_from(wanted.abs_diff(path)).unwrap_or(u32::MAX))
        < (1.0 - NEAR) * f64::from(u32::try_from(longer).unwrap_or(u32::MAX))
}

fn closeness(wanted: &str, path: &ToolPath) -> f64 {
    let spelled = strsim::normalized_damerau_levenshtein(wanted, path.as_str());
    // The right words in the wrong order, or with another separator, are a near miss too.
    let same_words = {
        let mut a: Vec<&str> = wanted.split(['.', '_']).collect();
        let mut b: Vec<&str> = path.as_str().split(['.', '_']).collect();
        a.sort_unstable();
        b.sort_unstable();
        a == b
    };
    if same_words { 1.0 } else { spelled }
}

fn score(tool: &CatalogTool, words: &[String]) -> Option<u32> {
    let SearchText { name, description } = tool.search_text();
    words.iter().try_fold(0, |total, word| {
        let mut worth = 0;
        if tool.path().as_str().contains(word) {
            worth += IN_PATH;
        }
        if tool.path().segments().any(|segment| segment == word) {
            worth += WHOLE_SEGMENT;
        }
        if name.contains(word) {
            worth += IN_NAME;
        }
        if description.contains(word) {
            worth += IN_DESCRIPTION;
        }
        (worth > 0).then_some(total + worth)
    })
}
