//! The terminal as a stage: taken over whole, and given back as it was, however this ends.

use std::io::stdout;

use ratatui::crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use ratatui::crossterm::execute;
use ratatui::layout::Size;
use ratatui::{DefaultTerminal, Frame};

/// The whole screen, ours until this is dropped.
pub(super) struct Stage {
    terminal: DefaultTerminal,
}

impl Stage {
    /// Takes the screen. A panic gives it back before it says anything.
    pub(super) fn enter() -> anyhow::Result<Self> {
        let terminal = ratatui::try_init()?;
        // So that pasted text is not taken for keys. A terminal that cannot do it is no worse than before.
        let _ = execute!(stdout(), EnableBracketedPaste);
        Ok(Self { terminal })
    }

    pub(super) fn size(&self) -> anyhow::Result<Size> {
        Ok(self.terminal.size()?)
    }

    pub(super) fn draw(&mut self, picture: impl FnOnce(&mut Frame<'_>)) -> anyhow::Result<()> {
        self.terminal.draw(picture)?;
        Ok(())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = execute!(stdout(), DisableBracketedPaste);
        ratatui::restore();
    }
}

/// The signals that ask a program to end.
pub(super) struct Stop {
    #[cfg(unix)]
    signals: [tokio::signal::unix::Signal; 3],
}

#[cfg(unix)]
impl Stop {
    pub(super) fn listen() -> anyhow::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
        let [terminate, interrupt, hangup] = kinds.map(signal);
        Ok(Self { signals: [terminate?, interrupt?, hangup?] })
    }

    /// Waits until somebody asks.
    pub(super) async fn asked(&mut self) {
        let [terminate, interrupt, hangup] = &mut self.signals;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

#[cfg(not(unix))]
impl Stop {
    pub(super) fn listen() -> anyhow::Result<Self> {
        Ok(Self {})
    }

    /// Waits until somebody asks.
    pub(super) async fn asked(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
