//! How the model looks.

use std::time::Duration;

use countersign_core::time::Timestamp;
use countersign_sdk::Remember;
use countersign_server::wire::{ExecutionSummary, PendingKind};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect, Size};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph, Scrollbar, ScrollbarOrientation, ScrollbarState, Wrap};

use super::coloured;
use super::item::{Item, State};
use super::model::{Link, MOST_DOUBT_ROWS, Mode, Model, Scope};
use super::page::PageRow;
use crate::coverage::{ARGUMENT_CHOICES, USES_PROMPT, most_remembered};
use crate::report;
use crate::screen::Paint;
use crate::shown::{RowKind, line};
use crate::span::{moment, span};

/// The part of the screen that the list may take.
const LIST_PART: u16 = 3;

/// How much of a message the list may need; the page below has it whole.
const LIST_CHARS: usize = 300;

/// Where things stand on the screen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Areas {
    title: Rect,
    list: Rect,
    head: Rect,
    pub(super) page: Rect,
    said: Rect,
    keys: Rect,
}

/// Where things stand on a screen of this size with this many questions.
pub(super) fn areas(size: Size, items: usize) -> Areas {
    let rows = u16::try_from(items).unwrap_or(u16::MAX);
    let list = rows.clamp(1, (size.height / LIST_PART).max(1));
    let whole = Rect::new(0, 0, size.width, size.height);
    let [title, list, head, page, said, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(list),
        Constraint::Length(2),
        Constraint::Min(0),
        Constraint::Length(1),
        Constraint::Length(1),
    ])
    .areas(whole);
    // The last column is the scroll bar's.
    Areas { title, list, head, page: Rect { width: page.width.saturating_sub(1), ..page }, said, keys }
}

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, model: &Model, paint: Paint, now: Timestamp) {
    let areas = areas(model.size, model.list_rows());
    let inside = |area: Rect| area.intersection(frame.area());
    let areas = Areas {
        title: inside(areas.title),
        list: inside(areas.list),
        head: inside(areas.head),
        page: inside(areas.page),
        said: inside(areas.said),
        keys: inside(areas.keys),
    };
    title(frame, areas.title, model, paint);
    list(frame, areas.list, model, paint, now);
    head(frame, areas.head, model, paint, now);
    page(frame, areas.page, model, paint);
    said(frame, areas.said, model, paint);
    keys(frame, areas.keys, model, paint);
    if let Mode::Help = model.mode {
        help(frame, paint);
    }
}

fn title(frame: &mut Frame<'_>, area: Rect, model: &Model, paint: Paint) {
    let number = match (model.waiting(), model.more) {
        (0, _) => "nothing waits for a person".to_owned(),
        (1, false) => "1 waits for a person".to_owned(),
        (number, false) => format!("{number} wait for a person"),
        (number, true) => format!("the oldest {number} of more"),
    };
    let link = match &model.link {
        Link::Opening => Span::raw("connecting …"),
        Link::Live => Span::styled("live", coloured(paint, Color::Green)),
        Link::Lost(_) => Span::styled("offline, trying again", coloured(paint, Color::Red)),
    };
    let doubts = match model.doubts.len() {
        0 => String::new(),
        number => format!("{number} in doubt, "),
    };
    let bar = Style::new().add_modifier(Modifier::REVERSED);
    let damaged = match model.damaged.len() {
        0 => String::new(),
        number => format!("{number} damaged, "),
    };
    let left = format!(" Countersign  {damaged}{doubts}{number} ");
    let right = [link, Span::raw(format!("  {} ", line(&model.url)))];
    let used = Span::raw(&left).width() + right.iter().map(Span::width).sum::<usize>();
    let gap = " ".repeat(usize::from(area.width).saturating_sub(used));
    let [link, url] = right;
    frame
        .render_widget(Paragraph::new(Line::from(vec![left.into(), gap.into(), link, url])).style(bar), area);
}

fn list(frame: &mut Frame<'_>, area: Rect, model: &Model, paint: Paint, now: Timestamp) {
    let mut lines: Vec<Line<'_>> = damaged_row(model, paint).into_iter().collect();
    lines.extend(doubt_rows(model, usize::from(area.height).saturating_sub(lines.len()), paint));
    if model.items.is_empty() {
        if lines.is_empty() {
            lines.push(Line::styled("  What asks for approval appears here by itself.", dim()));
        }
        frame.render_widget(Paragraph::new(lines), area);
        return;
    }
    let height = usize::from(area.height).saturating_sub(lines.len());
    let at = model.position().unwrap_or(0);
    // The cursor stays in sight; what stands before it gives way.
    let first = at.saturating_sub(height.saturating_sub(1));
    let width = model.items.iter().map(|item| item.question().tool_path.len()).max().unwrap_or(0).min(32);
    let rows = model.items.iter().enumerate().skip(first).take(height);
    lines.extend(rows.map(|(no, item)| row(item, no == at, width, paint, now)));
    frame.render_widget(Paragraph::new(lines), area);
}

/// That questions cannot be read, and where to read more about it.
fn damaged_row<'a>(model: &Model, paint: Paint) -> Option<Line<'a>> {
    let words = match &model.damaged[..] {
        [] => return None,
        [only] => format!("! damaged  {}  cannot be shown or decided: countersign doctor", line(&only.id)),
        all => format!("! {} damaged, which cannot be shown or decided: countersign doctor", all.len()),
    };
    Some(Line::styled(words, coloured(paint, Color::Red)))
}

/// What is in doubt, above everything else. At least one row stays for the questions.
fn doubt_rows<'a>(model: &Model, height: usize, paint: Paint) -> Vec<Line<'a>> {
    let questions = usize::from(!model.items.is_empty());
    let room = height.saturating_sub(questions).min(MOST_DOUBT_ROWS);
    let all = model.doubts.len();
    let style = coloured(paint, Color::Yellow);
    let shown = if all > room { room.saturating_sub(1) } else { all };
    let one = |doubt: &ExecutionSummary| {
        let tool = doubt.tool.as_deref().map_or_else(|| "script".to_owned(), line);
        let words = format!("! in doubt  {}  {tool}", line(&doubt.execution_id));
        Line::styled(words, style)
    };
    let mut lines: Vec<Line<'a>> = model.doubts.iter().take(shown).map(one).collect();
    if shown < all && room > 0 {
        let words = format!("! {} more in doubt: countersign executions --status in_doubt", all - shown);
        lines.push(Line::styled(words, style));
    }
    lines
}

fn row<'a>(item: &Item, chosen: bool, width: usize, paint: Paint, now: Timestamp) -> Line<'a> {
    let question = item.question();
    let mark = if chosen { "▸ " } else { "  " };
    let tool: String = line(&question.tool_path).chars().take(width).collect();
    let age = moment(&question.asked_at).map_or_else(String::new, |then| span(then.until(now)));
    let (what, style) = match &item.state {
        State::Open => {
            let beginning: String = question.message.chars().take(LIST_CHARS).collect();
            (line(&beginning), Style::new())
        }
        State::Sending => ("… your decision is on its way".to_owned(), coloured(paint, Color::Yellow)),
        State::Decided { words, .. } => {
            let colour = if words.starts_with("approved") { Color::Green } else { Color::Red };
            (words.clone(), coloured(paint, colour))
        }
    };
    let tool_style = if chosen { Style::new().add_modifier(Modifier::BOLD) } else { Style::new() };
    Line::from(vec![
        Span::styled(mark, coloured(paint, Color::Cyan)),
        Span::styled(format!("{tool:<width$}  "), tool_style),
        Span::styled(format!("{age:>12}  "), dim()),
        Span::styled(what, style),
    ])
}

fn head(frame: &mut Frame<'_>, area: Rect, model: &Model, paint: Paint, now: Timestamp) {
    let rule = Line::styled("─".repeat(usize::from(area.width)), dim());
    let Some(item) = model.selected() else {
        frame.render_widget(Paragraph::new(rule), area);
        return;
    };
    let question = item.question();
    let wants = match question.kind {
        PendingKind::Approval => "asks for approval",
        PendingKind::Form => "asks for an answer",
    };
    let left = moment(&question.expires_at).map_or(Duration::ZERO, |end| now.until(end));
    let hurry = if left < Duration::from_secs(60) { coloured(paint, Color::Red) } else { dim() };
    let facts = Line::from(vec![
        Span::styled(line(&question.tool_path), Style::new().add_modifier(Modifier::BOLD)),
        Span::raw(format!(" {wants}")),
        Span::styled(format!("  expires in {}", span(left)), hurry),
        Span::styled(
            format!("  for {} in {}", model.names.of(&item.asked.requester), line(&item.asked.session_id)),
            dim(),
        ),
    ]);
    frame.render_widget(Paragraph::new(vec![rule, facts]), area);
}

fn page(frame: &mut Frame<'_>, area: Rect, model: &Model, paint: Paint) {
    let rows = model.page().iter().skip(model.scroll).take(usize::from(area.height));
    let lines: Vec<Line<'_>> = rows.map(|row| page_row(row, paint)).collect();
    frame.render_widget(Paragraph::new(lines), area);
    if model.page().len() > usize::from(area.height) {
        let beyond = model.page().len().saturating_sub(usize::from(area.height)) + 1;
        let mut state = ScrollbarState::new(beyond).position(model.scroll);
        let bar = Rect { width: area.width + 1, ..area }.intersection(frame.area());
        frame.render_stateful_widget(Scrollbar::new(ScrollbarOrientation::VerticalRight), bar, &mut state);
    }
}

fn page_row<'a>(row: &'a PageRow, paint: Paint) -> Line<'a> {
    match row {
        PageRow::Heading(words) => Line::styled(*words, coloured(paint, Color::Cyan)),
        PageRow::Own(words) => Line::raw(words.as_str()),
        PageRow::Foreign(row) => match row.kind {
            RowKind::Warns => Line::styled(row.text.as_str(), coloured(paint, Color::Yellow)),
            kind => Line::from(vec![Span::styled(kind.gutter(), dim()), Span::raw(row.text.as_str())]),
        },
    }
}

fn said(frame: &mut Frame<'_>, area: Rect, model: &Model, paint: Paint) {
    let words = match (&model.mode, &model.link) {
        (Mode::Scope { scope: Scope::Arguments, .. }, _) => {
            "Which later calls of the tool may run without asking?".to_owned()
        }
        (Mode::Form { filling, .. }, _) => filling.problem().map(str::to_owned).unwrap_or_default(),
        (_, _) if !model.said.is_empty() => model.said.clone(),
        (_, Link::Lost(words)) => line(words),
        _ => unread(model),
    };
    frame.render_widget(Paragraph::new(Span::styled(words, coloured(paint, Color::Yellow))), area);
}

/// That there is more to read than fits, and what follows from it.
fn unread(model: &Model) -> String {
    let below = model.page().len().saturating_sub(model.scroll + model.page_height());
    match model.selected() {
        Some(item) if !item.is_read() => {
            format!("{below} more lines below. It can be approved once you have read it to its end: PgDn")
        }
        _ if below > 0 => format!("{below} more lines below: PgDn"),
        _ => String::new(),
    }
}

fn keys(frame: &mut Frame<'_>, area: Rect, model: &Model, paint: Paint) {
    let strong = Style::new().add_modifier(Modifier::BOLD);
    let prompt = |asks: String, written: &str| {
        Line::from(vec![
            Span::styled(asks, strong),
            Span::raw(format!(" {}", tail(written, 40))),
            Span::raw("▏"),
        ])
    };
    let words = match &model.mode {
        Mode::Reason { line, .. } => {
            prompt("Deny. Why? The caller reads it (Enter denies, Esc does not):".to_owned(), line.text())
        }
        Mode::Form { filling, .. } => prompt(format!("{}:", filling.prompt()), filling.written()),
        Mode::Scope { scope: Scope::Arguments, .. } => Line::styled(ARGUMENT_CHOICES, strong),
        Mode::Scope { scope: Scope::Uses { line, .. }, .. } => prompt(USES_PROMPT.to_owned(), line.text()),
        Mode::Help => Line::raw("any key: back"),
        Mode::Browse => offers(model, paint),
    };
    frame.render_widget(Paragraph::new(words), area);
}

/// The keys that do something here.
fn offers<'a>(model: &Model, paint: Paint) -> Line<'a> {
    let mut spans = Vec::new();
    let mut offer = |key: &'static str, words: &'static str, usable: bool| {
        let style = if usable { Style::new().add_modifier(Modifier::BOLD) } else { dim() };
        spans.push(Span::styled(key, style.patch(coloured(paint, Color::Cyan))));
        spans.push(Span::styled(format!(" {words}   "), if usable { Style::new() } else { dim() }));
    };
    if let Some(item) = model.selected().filter(|item| item.state == State::Open) {
        let question = item.question();
        let ready = item.is_read();
        let for_session =
            question.kind == PendingKind::Approval && most_remembered(question) == Remember::Session;
        match (report::authorises(question), for_session) {
            (true, true) => offer(
                "a",
                if ready { "approve for session" } else { "approve for session (PgDn first)" },
                ready,
            ),
            (true, false) => offer("a", if ready { "approve" } else { "approve (PgDn first)" }, ready),
            (false, _) => offer("Enter", if ready { "answer" } else { "answer (PgDn first)" }, ready),
        }
        if for_session {
            offer("o", "once", ready);
            offer("s", "narrow", ready);
        }
        offer("d", "deny", true);
    }
    offer("?", "help", true);
    offer("q", "quit", true);
    if model.items.len() > 1 {
        offer("j/k", "move", true);
    }
    Line::from(spans)
}

fn help(frame: &mut Frame<'_>, paint: Paint) {
    const HELP: &[(&str, &str)] = &[
        ("j  k  ↓  ↑", "choose a question"),
        ("PgDn  PgUp  Space  b", "read on, read back"),
        ("Home", "to the beginning"),
        ("a", "approve, as far as the page says; it runs with exactly these arguments"),
        ("o", "approve this call only, where the page says more"),
        ("s", "approve for the session; you choose how far"),
        ("d", "deny; the caller reads your reason"),
        ("Enter", "fill in a form"),
        ("q  Ctrl-C", "quit; everything goes on waiting"),
    ];
    let mut lines = vec![Line::styled("Keys", Style::new().add_modifier(Modifier::BOLD)), Line::raw("")];
    lines.extend(HELP.iter().map(|(key, words)| {
        Line::from(vec![Span::styled(format!("{key:<22}"), coloured(paint, Color::Cyan)), Span::raw(*words)])
    }));
    lines.push(Line::raw(""));
    lines.push(Line::raw("What is longer than the screen can be approved once you have read it to its end."));
    lines.push(Line::raw(
        "Text behind │ is the tool's or the agent's, never ours. ⟦…⟧ stands for what cannot be seen.",
    ));
    let area = frame.area();
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), area);
}

/// The end of a line that is being written, so that the cursor stays in sight.
fn tail(text: &str, chars: usize) -> String {
    let shown = line(text);
    let skip = shown.chars().count().saturating_sub(chars);
    if skip == 0 { shown } else { format!("…{}", shown.chars().skip(skip).collect::<String>()) }
}

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

#[cfg(test)]
mod tests;
