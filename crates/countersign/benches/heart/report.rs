//! The table: each row with what it must show, what it should reach, and whether it does.

/// A figure, and where it has to be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bound {
    /// More is better.
    AtLeast { must: f64, reach: f64 },
    /// Less is better.
    AtMost { must: f64, reach: f64 },
}

impl Bound {
    fn verdict(self, figure: f64) -> &'static str {
        let (holds_must, holds_reach) = match self {
            Bound::AtLeast { must, reach } => (figure >= must, figure >= reach),
            Bound::AtMost { must, reach } => (figure <= must, figure <= reach),
        };
        match (holds_must, holds_reach) {
            (_, true) => "reached",
            (true, false) => "enough",
            (false, false) => "MISSED",
        }
    }

    fn words(self, unit: &str) -> (String, String) {
        match self {
            Bound::AtLeast { must, reach } => (format!("≥ {must}{unit}"), format!("≥ {reach}{unit}")),
            Bound::AtMost { must, reach } => (format!("≤ {must}{unit}"), format!("≤ {reach}{unit}")),
        }
    }
}

/// One row, measured.
pub(crate) struct Row {
    pub(crate) work: &'static str,
    /// What the floor, or the product without load, needed; empty where there is none.
    pub(crate) floor: String,
    pub(crate) product: String,
    /// What is held against the bound, in `unit`.
    pub(crate) figure: f64,
    pub(crate) unit: &'static str,
    pub(crate) bound: Bound,
}

/// All rows of one run.
#[derive(Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
    notes: Vec<String>,
}

impl Report {
    pub(crate) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// A figure that is not judged, or how a row came about; printed below the table.
    pub(crate) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    pub(crate) fn print(&self) {
        line(["work", "floor", "product", "figure", "must", "reach", ""]);
        for row in &self.rows {
            let (must, reach) = row.bound.words(row.unit);
            let figure = format!("{}{}", rounded(row.figure), row.unit);
            line([row.work, &row.floor, &row.product, &figure, &must, &reach, row.bound.verdict(row.figure)]);
        }
        for note in &self.notes {
            println!("  {note}");
        }
    }
}

fn line([work, floor, product, figure, must, reach, verdict]: [&str; 7]) {
    println!("{work:<58} {floor:>14} {product:>14} {figure:>10} {must:>10} {reach:>10}  {verdict}");
}

/// Three digits are what such figures are good for.
fn rounded(figure: f64) -> String {
    match figure {
        f if f >= 100.0 => format!("{f:.0}"),
        f if f >= 10.0 => format!("{f:.1}"),
        f => format!("{f:.2}"),
    }
}
