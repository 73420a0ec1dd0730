//! What stands on the screen and what a key means. Nothing here draws, waits or talks: everything is a value.

use std::time::Duration;

use countersign_core::coverage::{Coverage, CoveredArgs};
use countersign_core::time::Timestamp;
use countersign_sdk::Remember;
use countersign_server::wire::{
    Damaged, Decision, Elicitation, ElicitationResponse, ExecutionSummary, Pending, PendingKind,
    ResolveRequest,
};
use ratatui::layout::Size;

use super::item::{Item, State};
use super::page::{PageRow, page};
use super::prompt::{Filled, Filling, Line};
use super::view::areas;
use crate::coverage::{self, most_remembered};
use crate::exit::Problem;
use crate::names::Names;
use crate::terminal::{no, yes};
use crate::{report, shown};

/// The most questions that are kept on the screen; the oldest.
pub(super) const MOST_ITEMS: usize = 1_000;
/// The most rows that executions in doubt take; the questions below want to be seen too.
pub(super) const MOST_DOUBT_ROWS: usize = 3;
/// How long a question that was decided stays, to say by whom.
const LINGER: Duration = Duration::from_secs(4);
/// How long a question must have stood under the cursor before a key decides it, where the person did not put it there.
const STEADY: Duration = Duration::from_millis(600);
/// A key that comes again within this time is being held down: terminals begin to repeat a key after at most 660 ms.
const HELD: Duration = Duration::from_millis(1_000);

/// A key, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    Enter,
    Escape,
    Backspace,
    Paste(String),
    Stop,
}

/// What is to be done about a key.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Deed {
    /// Decide the question that is shown.
    Resolve {
        question: Box<Pending>,
        request: ResolveRequest,
    },
    Quit,
}

/// What the keys mean at the moment.
#[derive(Debug, Clone)]
pub(super) enum Mode {
    /// Choosing and deciding.
    Browse,
    /// Reading about the keys.
    Help,
    /// Writing why the answer is no.
    Reason { id: String, line: Line },
    /// Filling in a form.
    Form { id: String, filling: Filling },
    /// Choosing how far an approval for the session goes.
    Scope { id: String, scope: Scope },
}

/// How far a yes is to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Yes {
    /// As far as the question says.
    Plain,
    /// This call only.
    Once,
    /// As far as the person chooses.
    Narrowed,
}

/// How far the choice of an approval for the session has come.
#[derive(Debug, Clone)]
pub(super) enum Scope {
    /// Which arguments.
    Arguments,
    /// For how many calls.
    Uses { args: CoveredArgs, line: Line },
}

/// How the server is heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Link {
    /// Not yet.
    Opening,
    Live,
    Lost(String),
}

/// Everything that is on the screen.
pub(super) struct Model {
    pub(super) url: String,
    pub(super) names: Names,
    /// How long an approval for a session lasts.
    pub(super) remember_for: Option<Duration>,
    /// Executions with a call in doubt: they stand above the questions.
    pub(super) doubts: Vec<ExecutionSummary>,
    /// Questions whose records are damaged: they cannot be shown, and stand above everything else.
    pub(super) damaged: Vec<Damaged>,
    pub(super) items: Vec<Item>,
    pub(super) more: bool,
    pub(super) link: Link,
    pub(super) mode: Mode,
    pub(super) said: String,
    pub(super) scroll: usize,
    pub(super) size: Size,
    selected: Option<String>,
    steady_from: Timestamp,
    last_key: Option<(Key, Timestamp)>,
    is_held: bool,
    laid: Vec<PageRow>,
    laid_for: Option<(String, u16)>,
}

impl Model {
    pub(super) fn new(url: &str, names: Names, size: Size, now: Timestamp) -> Self {
        Self {
            url: url.to_owned(),
            names,
            remember_for: None,
            doubts: Vec::new(),
            damaged: Vec::new(),
            items: Vec::new(),
            more: false,
            link: Link::Opening,
            mode: Mode::Browse,
            said: String::new(),
            scroll: 0,
            size,
            selected: None,
            steady_from: now,
            last_key: None,
            is_held: false,
            laid: Vec::new(),
            laid_for: None,
        }
    }

    /// The question under the cursor.
    pub(super) fn selected(&self) -> Option<&Item> {
        self.position().and_then(|at| self.items.get(at))
    }

    /// Its place in the list.
    pub(super) fn position(&self) -> Option<usize> {
        let id = self.selected.as_deref()?;
        self.items.iter().position(|item| item.id() == id)
    }

    /// Its page.
    pub(super) fn page(&self) -> &[PageRow] {
        &self.laid
    }

    /// How many rows of the page fit on the screen.
    pub(super) fn page_height(&self) -> usize {
        usize::from(areas(self.size, self.list_rows()).page.height)
    }

    /// How many questions wait.
    pub(super) fn waiting(&self) -> usize {
        self.items.iter().filter(|item| !matches!(item.state, State::Decided { .. })).count()
    }

    /// How many rows the list would like to have.
    pub(super) fn list_rows(&self) -> usize {
        let damaged = usize::from(!self.damaged.is_empty());
        damaged + self.items.len() + self.doubts.len().min(MOST_DOUBT_ROWS)
    }

    /// The questions that cannot be read, as of the last list.
    pub(super) fn found_damaged(&mut self, damaged: Vec<Damaged>) {
        self.damaged = damaged;
        self.lay_out();
    }

    /// The executions with a call in doubt, as they are now.
    pub(super) fn doubted(&mut self, doubts: Vec<ExecutionSummary>) {
        self.doubts = doubts;
        self.lay_out();
    }

    pub(super) fn resize(&mut self, size: Size) {
        self.size = size;
        for item in &mut self.items {
            // Rows have other numbers at another width; what was read whole stays read.
            item.unread_from = 0;
        }
        self.lay_out();
    }

    pub(super) fn tick(&mut self, now: Timestamp) {
        for item in &mut self.items {
            if item.state == State::Open && item.is_late(now) {
                let words = "expired: nobody decided in time".to_owned();
                item.state = State::Decided { words, at: now };
            }
        }
        let gone = |item: &Item| matches!(item.state, State::Decided { at, .. } if at.until(now) >= LINGER);
        self.keep(|item| !gone(item), now);
    }

    /// Everything that waits, after the connection was made anew.
    pub(super) fn listed(&mut self, asked: Vec<Elicitation>, more: bool, now: Timestamp) {
        self.link = Link::Live;
        self.more = more;
        for item in &mut self.items {
            let still = asked.iter().any(|one| one.question.elicitation_id == item.id());
            if item.state == State::Open && !still {
                item.state = State::Decided { words: "decided meanwhile".to_owned(), at: now };
            }
        }
        for one in asked {
            self.asked(one, now);
        }
        self.lay_out();
    }

    /// A question that is new, as far as the server knows.
    pub(super) fn asked(&mut self, asked: Elicitation, now: Timestamp) {
        let known = self.items.iter().any(|item| item.id() == asked.question.elicitation_id);
        if known {
            return;
        }
        if self.items.len() >= MOST_ITEMS {
            self.more = true;
            return;
        }
        self.items.push(Item { asked, state: State::Open, denials: Vec::new(), unread_from: 0, read: false });
        if self.selected.is_none() {
            self.select(0, now);
        }
        self.lay_out();
    }

    /// The same was denied before. Its page is another now, and is read anew.
    pub(super) fn denied_before(&mut self, id: &str, denials: Vec<String>) {
        let Some(item) = self.items.iter_mut().find(|item| item.id() == id) else { return };
        if item.denials != denials {
            (item.denials, item.unread_from, item.read) = (denials, 0, false);
            self.laid_for = None;
            self.lay_out();
        }
    }

    /// A question ended, here or elsewhere.
    pub(super) fn decided(&mut self, id: &str, words: &str, now: Timestamp) {
        let Some(item) = self.items.iter_mut().find(|item| item.id() == id) else { return };
        if matches!(item.state, State::Decided { .. }) {
            return;
        }
        item.state = State::Decided { words: words.to_owned(), at: now };
        let prompted = match &self.mode {
            Mode::Reason { id, .. } | Mode::Form { id, .. } | Mode::Scope { id, .. } => Some(id.as_str()),
            Mode::Browse | Mode::Help => None,
        };
        if prompted == Some(id) {
            self.mode = Mode::Browse;
            self.said = format!("It was {words} while you were deciding.");
        }
    }

    /// What came of a decision made here.
    pub(super) fn answered(
        &mut self,
        id: &str,
        answer: Result<ElicitationResponse, Problem>,
        now: Timestamp,
    ) {
        let words = match answer {
            Ok(receipt) => format!("{} by you", shown::line(&receipt.outcome)),
            Err(problem) => match (problem.code.as_ref(), winner(&problem)) {
                ("already_decided", Some(decision)) => report::told_decision(&decision, &self.names),
                ("already_decided", None) => "decided by somebody else".to_owned(),
                ("expired", _) => "expired: nobody decided in time".to_owned(),
                _ => return self.reopen(id, &problem),
            },
        };
        if let Some(item) = self.items.iter_mut().find(|item| item.id() == id) {
            self.said = format!("{}: {words}", shown::line(&item.question().tool_path));
            item.state = State::Decided { words, at: now };
        }
    }

    /// The server cannot be heard.
    pub(super) fn lost(&mut self, words: String) {
        self.link = Link::Lost(words);
    }

    /// What a key does.
    pub(super) fn key(&mut self, key: Key, now: Timestamp) -> Option<Deed> {
        if key == Key::Stop {
            return Some(Deed::Quit);
        }
        self.note_held(&key, now);
        let deed = match std::mem::replace(&mut self.mode, Mode::Browse) {
            Mode::Browse => self.browse(&key, now),
            // Any key leads back.
            Mode::Help => None,
            Mode::Reason { id, line } => self.write_reason(id, line, key),
            Mode::Form { id, filling } => self.fill(id, filling, key),
            Mode::Scope { id, scope } => self.narrow(id, scope, key),
        };
        self.lay_out();
        deed
    }

    /// A key that is held down comes again and again, in most terminals as if it were pressed each time. Each time puts off
    /// the moment from which it counts as pressed anew.
    fn note_held(&mut self, key: &Key, now: Timestamp) {
        let again = self.last_key.as_ref().is_some_and(|(last, at)| last == key && at.until(now) < HELD);
        self.is_held = again;
        self.last_key = Some((key.clone(), now));
    }

    fn browse(&mut self, key: &Key, now: Timestamp) -> Option<Deed> {
        self.said.clear();
        match key {
            Key::Char('q') => return Some(Deed::Quit),
            Key::Char('?' | 'h') => self.mode = Mode::Help,
            Key::Char('j') | Key::Down => self.step(1, now),
            Key::Char('k') | Key::Up => self.step(-1, now),
            Key::PageDown | Key::Char(' ') => self.turn(1),
            Key::PageUp | Key::Char('b') => self.turn(-1),
            Key::Home | Key::Char('g') => self.scroll = 0,
            Key::Char('a') | Key::Enter => return self.approve(Yes::Plain, key, now),
            Key::Char('o') => return self.approve(Yes::Once, key, now),
            Key::Char('s') => return self.approve(Yes::Narrowed, key, now),
            Key::Char('d') => {
                let id = self.decidable(now)?.id().to_owned();
                self.mode = Mode::Reason { id, line: Line::default() };
            }
            Key::Paste(_) => "Pasted text decides nothing.".clone_into(&mut self.said),
            _ => {}
        }
        None
    }

    /// Yes, or the form that a yes needs.
    fn approve(&mut self, yes: Yes, key: &Key, now: Timestamp) -> Option<Deed> {
        let item = self.decidable(now)?;
        let (id, read, question) = (item.id().to_owned(), item.read, item.question().clone());
        let form = !report::authorises(&question);
        let complaint = match (key, yes) {
            _ if self.is_held => "Let go of the key, then press it again.",
            _ if !read => "There is more to read: PgDn to its end first.",
            (_, Yes::Once | Yes::Narrowed) if form || question.kind == PendingKind::Form => {
                "This cannot be remembered."
            }
            (_, Yes::Once | Yes::Narrowed) if most_remembered(&question) == Remember::Call => {
                "Each call of this tool is asked about; approve this one with a."
            }
            (Key::Enter, _) if !form => "Press a to approve, d to deny.",
            _ => "",
        };
        if !complaint.is_empty() {
            complaint.clone_into(&mut self.said);
            return None;
        }
        if form {
            self.open_form(id, &question);
            return None;
        }
        let covers = match yes {
            Yes::Plain => coverage::of_plain_yes(&question),
            Yes::Once => Coverage::Call,
            Yes::Narrowed => {
                self.mode = Mode::Scope { id, scope: Scope::Arguments };
                return None;
            }
        };
        self.send(&id, coverage::approval(&question, covers, None))
    }

    /// The question under the cursor, if a key may decide it now.
    fn decidable(&mut self, now: Timestamp) -> Option<&Item> {
        let complaint = match self.selected() {
            None => return None,
            Some(item) => match &item.state {
                State::Sending => "Your decision is on its way.",
                State::Decided { .. } => "It is decided already.",
                State::Open if item.is_late(now) => "Its time is up.",
                State::Open if self.steady_from.until(now) < STEADY => {
                    "This question has just come under the cursor: look at it first."
                }
                State::Open => "",
            },
        };
        if !complaint.is_empty() {
            complaint.clone_into(&mut self.said);
            return None;
        }
        self.selected()
    }

    fn open_form(&mut self, id: String, question: &Pending) {
        match question.schema.as_ref().and_then(Filling::of) {
            Some(filling) => self.mode = Mode::Form { id, filling },
            None => {
                self.said =
                    format!("This form cannot be asked for here: countersign approve {id} --data '{{…}}'");
            }
        }
    }

    fn write_reason(&mut self, id: String, mut line: Line, key: Key) -> Option<Deed> {
        match key {
            Key::Escape => "Nothing was decided.".clone_into(&mut self.said),
            Key::Enter => {
                let reason = Some(line.text().trim().to_owned()).filter(|text| !text.is_empty());
                return self.send(&id, no(reason));
            }
            key => {
                line.key(key);
                self.mode = Mode::Reason { id, line };
            }
        }
        None
    }

    fn fill(&mut self, id: String, mut filling: Filling, key: Key) -> Option<Deed> {
        match filling.key(key) {
            Filled::Left => "Nothing was decided.".clone_into(&mut self.said),
            Filled::Going => self.mode = Mode::Form { id, filling },
            Filled::With(data) => return self.send(&id, yes(None, Some(data))),
        }
        None
    }

    /// The second and third word of an approval for the session. Whatever is not one of the named keys decides nothing.
    fn narrow(&mut self, id: String, scope: Scope, key: Key) -> Option<Deed> {
        let next = match (scope, key) {
            (_, Key::Escape) => None,
            (Scope::Arguments, _) if self.is_held => None,
            (Scope::Arguments, Key::Char(letter)) => coverage::chosen_args(&letter.to_string())
                .map(|args| Scope::Uses { args, line: Line::default() }),
            (Scope::Arguments, _) => None,
            (Scope::Uses { args, line }, Key::Enter) => match coverage::uses(line.text()) {
                Ok(uses) => {
                    let question = self.items.iter().find(|item| item.id() == id)?.question();
                    let request = coverage::approval(question, Coverage::Session { args, uses }, None);
                    return self.send(&id, request);
                }
                Err(problem) => {
                    problem.clone_into(&mut self.said);
                    Some(Scope::Uses { args, line: Line::default() })
                }
            },
            (Scope::Uses { args, mut line }, key) => {
                line.key(key);
                Some(Scope::Uses { args, line })
            }
        };
        match next {
            Some(scope) => self.mode = Mode::Scope { id, scope },
            None => "Nothing was decided.".clone_into(&mut self.said),
        }
        None
    }

    fn send(&mut self, id: &str, request: ResolveRequest) -> Option<Deed> {
        let item = self.items.iter_mut().find(|item| item.id() == id)?;
        if item.state != State::Open {
            "It was decided meanwhile.".clone_into(&mut self.said);
            return None;
        }
        item.state = State::Sending;
        let question = Box::new(item.question().clone());
        Some(Deed::Resolve { question, request })
    }

    /// A decision that was not taken: the question is as open as before.
    fn reopen(&mut self, id: &str, problem: &Problem) {
        if let Some(item) = self.items.iter_mut().find(|item| item.id() == id && item.state == State::Sending)
        {
            item.state = State::Open;
        }
        let hint = problem.hint.as_deref().map(|hint| format!(" {hint}")).unwrap_or_default();
        self.said = shown::line(&format!("Nothing was decided: {}{hint}", problem.message));
    }

    fn step(&mut self, by: isize, now: Timestamp) {
        let Some(at) = self.position() else { return };
        let to = at.saturating_add_signed(by).min(self.items.len().saturating_sub(1));
        if to != at {
            self.select(to, now);
            // The person put the cursor there.
            self.steady_from = Timestamp::from_millis(0);
        }
    }

    fn turn(&mut self, pages: isize) {
        // One row of the page before stays, so that nobody loses the thread.
        let rows = isize::try_from(self.page_height().saturating_sub(1).max(1)).unwrap_or(1);
        self.scroll = self.scroll.saturating_add_signed(rows.saturating_mul(pages));
    }

    fn select(&mut self, at: usize, now: Timestamp) {
        self.selected = self.items.get(at).map(|item| item.id().to_owned());
        self.scroll = 0;
        self.steady_from = now;
    }

    /// Drops items; the cursor goes to what stands where its item stood.
    fn keep(&mut self, keep: impl Fn(&Item) -> bool, now: Timestamp) {
        let Some(at) = self.position() else { return };
        let before = self.items.iter().take(at).filter(|item| keep(item)).count();
        let stays = self.items.get(at).is_some_and(&keep);
        self.items.retain(keep);
        if !stays {
            self.select(before.min(self.items.len().saturating_sub(1)), now);
        }
        self.lay_out();
    }

    /// Lays out the page of the question under the cursor, and notes how far it has been on the screen.
    fn lay_out(&mut self) {
        let areas = areas(self.size, self.list_rows());
        let height = usize::from(areas.page.height);
        let at = self.position();
        // A question never changes, and may be a megabyte long: it is laid out once for each width.
        let wanted = at.and(self.selected.clone()).map(|id| (id, areas.page.width));
        if self.laid_for != wanted {
            self.laid = match at.and_then(|at| self.items.get(at)) {
                Some(item) => {
                    page(item.question(), &item.denials, self.remember_for, usize::from(areas.page.width))
                }
                None => Vec::new(),
            };
            self.laid_for = wanted;
        }
        self.scroll = self.scroll.min(self.laid.len().saturating_sub(height));
        let rows = self.laid.len();
        if let Some(item) = at.and_then(|at| self.items.get_mut(at))
            && matches!(self.mode, Mode::Browse)
            && self.scroll <= item.unread_from
        {
            item.unread_from = item.unread_from.max(self.scroll + height).min(rows);
            item.read |= height > 0 && item.unread_from == rows;
        }
    }
}

/// Who was faster.
fn winner(problem: &Problem) -> Option<Decision> {
    serde_json::from_value(problem.more.get("decision")?.clone()).ok()
}

#[cfg(test)]
mod tests;
