//! Aligned columns. On a terminal they are cut to its width, so that a row is a line; elsewhere nothing is cut.

use ratatui::crossterm::terminal;
use ratatui::text::Span;

use crate::screen::{Audience, Screen};

const GAP: &str = "  ";
/// Where the terminal does not say how wide it is.
const USUAL_WIDTH: usize = 100;
/// What a column is never cut below.
const LEAST_WIDTH: usize = 8;

/// Rows under heads.
pub(crate) struct Table {
    heads: Vec<Cell>,
    rows: Vec<Vec<Cell>>,
    most: Option<usize>,
}

/// One field: its text, and how it is painted. Text that comes from elsewhere must have been made visible.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    painted: Option<String>,
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, painted: None }
    }
}

impl From<(String, String)> for Cell {
    fn from((text, painted): (String, String)) -> Self {
        Self { text, painted: Some(painted) }
    }
}

impl Table {
    /// An empty table for standard output.
    pub(crate) fn new(screen: Screen, heads: &[&str]) -> Self {
        let most = match screen.audience {
            Audience::Program => None,
            Audience::Person | Audience::Reader => {
                Some(terminal::size().map_or(USUAL_WIDTH, |(columns, _)| usize::from(columns)))
            }
        };
        let head = |head: &&str| Cell::from(((*head).to_owned(), screen.out.dim(head)));
        Self { heads: heads.iter().map(head).collect(), rows: Vec::new(), most }
    }

    /// Adds a row: as many fields as there are heads.
    pub(crate) fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        self.rows.push(cells.into());
    }

    /// The table as text; nothing where there are no rows.
    pub(crate) fn render(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let widths = self.widths();
        let lines = std::iter::once(&self.heads).chain(&self.rows).map(|row| line(row, &widths));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// How wide each column is; the widest give way first, and none to less than it needs to be told apart.
    fn widths(&self) -> Vec<usize> {
        let column = |no: usize| {
            let cells = std::iter::once(&self.heads).chain(&self.rows).filter_map(|row| row.get(no));
            cells.map(|cell| width(&cell.text)).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..self.heads.len()).map(column).collect();
        let Some(most) = self.most else { return widths };
        let gaps = GAP.len() * widths.len().saturating_sub(1);
        loop {
            let whole = widths.iter().sum::<usize>() + gaps;
            // An id that is cut can be given to no command; the first column stays whole.
            let widest = widths.iter_mut().skip(1).max();
            match widest {
                Some(widest) if whole > most && *widest > LEAST_WIDTH => *widest -= 1,
                _ => return widths,
            }
        }
    }
}

fn line(row: &[Cell], widths: &[usize]) -> String {
    let fields = row.iter().zip(widths).map(|(cell, wanted)| {
        let shown = width(&cell.text);
        if shown > *wanted {
            return cut(&cell.text, *wanted);
        }
        let padding = " ".repeat(wanted - shown);
        format!("{}{padding}", cell.painted.as_deref().unwrap_or(&cell.text))
    });
    fields.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
}

/// A text that had to be cut says so.
fn cut(text: &str, wanted: usize) -> String {
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        let more = width(c.encode_utf8(&mut [0; 4]));
        if used + more + 1 > wanted {
            break;
        }
        out.push(c);
        used += more;
    }
    out.push('…');
    out.push_str(&" ".repeat(wanted.saturating_sub(used + 1)));
    out
}

/// How many columns of a terminal a text takes.
fn width(text: &str) -> usize {
    Span::raw(text).width()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::{Format, Paint};

    fn table(audience: Audience) -> Table {
        let screen = Screen { format: Format::Text, audience, out: Paint::Plain, err: Paint::Plain };
        let mut table = Table::new(screen, &["ID", "WHAT"]);
        for (id, what) in [("eli_0123456789", "notes.delete"), ("eli_1", "日本語日本語日本語日本語")]
        {
            table.row([id.to_owned().into(), what.to_owned().into()]);
        }
        table
    }

    #[test]
    fn columns_are_aligned_and_nothing_is_cut_for_a_program() {
        let text = table(Audience::Program).render();
        assert_eq!(
            text,
            "ID              WHAT\neli_0123456789  notes.delete\neli_1           日本語日本語日本語日本語"
        );
    }

    #[test]
    fn a_row_is_a_line_of_the_terminal_and_ids_stay_whole() {
        let narrow = Table { most: Some(26), ..table(Audience::Person) };
        let text = narrow.render();
        assert!(text.lines().all(|line| width(line) <= 26), "{text}");
        assert!(text.contains("eli_0123456789") && text.contains('…'), "{text}");
    }

    #[test]
    fn paint_takes_no_room() {
        let mut table = table(Audience::Program);
        table.row([("x".to_owned(), "\u{1b}[31mx\u{1b}[0m".to_owned()).into(), "y".to_owned().into()]);
        assert!(table.render().ends_with("\u{1b}[31mx\u{1b}[0m               y"));
    }
}
