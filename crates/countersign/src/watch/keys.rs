//! The keyboard, read by a thread of its own: a read from a terminal cannot be called off.

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::Size;
use tokio::sync::mpsc;

use super::model::Key;

/// Keys that may wait to be looked at.
const TYPED_AHEAD: usize = 64;

/// What came from the terminal.
pub(super) enum Typed {
    Key(Key),
    Resized(Size),
}

/// What is typed from now on.
pub(super) fn of_process() -> mpsc::Receiver<Typed> {
    let (typed, keys) = mpsc::channel(TYPED_AHEAD);
    // Detached on purpose: it ends with the process.
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            let Some(key) = meaning(event) else { continue };
            if typed.blocking_send(key).is_err() {
                return;
            }
        }
    });
    keys
}

fn meaning(event: Event) -> Option<Typed> {
    match event {
        Event::Resize(width, height) => Some(Typed::Resized(Size { width, height })),
        Event::Paste(text) => Some(Typed::Key(Key::Paste(text))),
        Event::Key(key) if key.kind != KeyEventKind::Release => named(key).map(Typed::Key),
        _ => None,
    }
}

fn named(key: KeyEvent) -> Option<Key> {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    Some(match key.code {
        KeyCode::Char('c') if control => Key::Stop,
        KeyCode::Char('d') if control => Key::PageDown,
        KeyCode::Char('u') if control => Key::PageUp,
        _ if control || key.modifiers.contains(KeyModifiers::ALT) => return None,
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        _ => return None,
    })
}
