//! Finding tools: ranked search over path, name and description, and near misses for a path that is not there.

use std::cmp::Reverse;
use std::sync::Arc;

use countersign_sdk::{Definition, ToolPath};
use memchr::memmem;

use crate::catalog::{Catalog, CatalogTool};

/// The most words of a query that count; the rest is ignored.
const MAX_QUERY_WORDS: usize = 16;
/// How many near misses are named.
const MAX_NEAR: usize = 3;
/// How many paths are compared letter by letter with one that is not there: those with the most letters in common.
const MAX_COMPARED: usize = 200;
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

/// The score of a word, by where it was found: most for a path, least for a description.
const IN_PATH: u32 = 12;
const IN_NAME: u32 = 10;
const IN_DESCRIPTION: u32 = 5;
const WHOLE_SEGMENT: u32 = 8;

/// A word of a query.
struct Word {
    text: String,
    finder: memmem::Finder<'static>,
}

impl Word {
    fn of(text: String) -> Self {
        Self { finder: memmem::Finder::new(&text).into_owned(), text }
    }

    fn is_in(&self, text: &str) -> bool {
        self.finder.find(text.as_bytes()).is_some()
    }
}

/// The searchable texts of a tool in lower case, made once.
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
        let words: Vec<Word> = query
            .split(|c: char| !c.is_alphanumeric())
            .filter(|w| !w.is_empty())
            .take(MAX_QUERY_WORDS)
            .map(|word| Word::of(word.to_lowercase()))
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
        let letters = Letters::of(&wanted);
        let mut candidates: Vec<(u16, &ToolPath)> = self
            .iter()
            .map(|tool| tool.path())
            .filter_map(|path| {
                let of_path = Letters::of(path.as_str());
                let (least, longer) = (letters.least_edits(&of_path), letters.all.max(of_path.all));
                (f64::from(least) < (1.0 - NEAR) * f64::from(longer)).then_some((least, path))
            })
            .collect();
        candidates.sort_unstable();
        let mut near: Vec<(f64, &ToolPath)> = candidates
            .into_iter()
            .take(MAX_COMPARED)
            .map(|(_, path)| (closeness(&wanted, path), path))
            .filter(|(closeness, _)| *closeness > NEAR)
            .collect();
        near.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        near.into_iter().take(MAX_NEAR).map(|(_, path)| path.clone()).collect()
    }
}

/// How many letters of each kind a text has. Separators are one kind, and so is everything beyond ASCII.
struct Letters {
    counts: [u16; 129],
    all: u16,
}

impl Letters {
    fn of(text: &str) -> Self {
        let mut letters = Self { counts: [0; 129], all: 0 };
        for letter in text.chars() {
            let kind = if letter == '_' { '.' } else { letter };
            letters.counts[(kind as usize).min(128)] += 1;
            letters.all += 1;
        }
        letters
    }

    /// The edits that it takes at least to make one text out of the other. Far cheaper than counting them.
    fn least_edits(&self, other: &Self) -> u16 {
        let (mut missing, mut surplus) = (0, 0);
        for (ours, theirs) in self.counts.iter().zip(&other.counts) {
            missing += theirs.saturating_sub(*ours);
            surplus += ours.saturating_sub(*theirs);
        }
        missing.max(surplus)
    }
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

fn score(tool: &CatalogTool, words: &[Word]) -> Option<u32> {
    let SearchText { name, description } = tool.search_text();
    words.iter().try_fold(0, |total, word| {
        let mut worth = 0;
        if word.is_in(tool.path().as_str()) {
            worth += IN_PATH;
            if tool.path().segments().any(|segment| segment == word.text) {
                worth += WHOLE_SEGMENT;
            }
        }
        if word.is_in(name) {
            worth += IN_NAME;
        }
        if word.is_in(description) {
            worth += IN_DESCRIPTION;
        }
        (worth > 0).then_some(total + worth)
    })
}
