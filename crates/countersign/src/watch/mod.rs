//! `inbox --watch`: what waits for a person, live, on the whole screen.
//!
//! [`model`] says what is there and what a key means; it does nothing and knows no terminal. [`view`] draws it. This file
//! is the loop between the two, the keyboard and the server.
//!
//! Promises: what cannot be seen whole cannot be approved (A2); a question that slid under the cursor is not answered by
//! a key that was meant for another; pasted text decides nothing; the terminal is as it was when this ends, also after a panic or
//! a signal.

mod feed;
#[cfg(test)]
pub(crate) mod fixture;
mod item;
mod keys;
mod model;
mod page;
mod prompt;
mod stage;
mod view;

use std::time::Duration;

use countersign_kernel::ports::{Clock as _, SystemClock};
use tokio::sync::mpsc;

use crate::contact::Contact;
use crate::exit::Exit;
use crate::screen::Paint;
use feed::Heard;
use model::{Deed, Model};
use stage::{Stage, Stop};

/// How often what depends on the time is brought up to date.
const TICK: Duration = Duration::from_millis(250);
/// How much may wait to be shown before the server's events have to wait too.
const BACKLOG: usize = 256;

/// Shows the inbox until the person leaves it.
pub(crate) async fn run(contact: &Contact) -> anyhow::Result<Exit> {
    let mut stop = Stop::listen()?;
    let names = contact.names().await.clone();
    let (tell, mut heard) = mpsc::channel(BACKLOG);
    let feeding = tokio::spawn(feed::follow(contact.operator.clone(), names.clone(), tell.clone()));
    let mut keys = keys::of_process();
    let mut tick = tokio::time::interval(TICK);
    let mut stage = Stage::enter()?;
    let mut model = Model::new(contact.operator.url(), names, stage.size()?, SystemClock.now());
    model.remember_for = contact.remember_for().await;
    loop {
        stage.draw(|frame| view::draw(frame, &model, contact.screen.out, SystemClock.now()))?;
        // One thing at a time, and drawn after each: what counts as read was on the screen.
        let deed = tokio::select! {
            biased;
            () = stop.asked() => Some(Deed::Quit),
            key = keys.recv() => match key {
                Some(keys::Typed::Key(key)) => model.key(key, SystemClock.now()),
                Some(keys::Typed::Resized(size)) => { model.resize(size); None }
                None => Some(Deed::Quit),
            },
            Some(news) = heard.recv() => { take(&mut model, news); None }
            _ = tick.tick() => { model.tick(SystemClock.now()); None }
        };
        match deed {
            Some(Deed::Quit) => break,
            Some(Deed::Resolve { question, request }) => {
                let (operator, tell) = (contact.operator.clone(), tell.clone());
                tokio::spawn(async move {
                    let answer = operator.resolve(&question, &request).await;
                    let id = question.elicitation_id;
                    // Nobody is left to be told where the person quit meanwhile; the decision stands.
                    let _ = tell.send(Heard::Answered { id, answer }).await;
                });
            }
            None => {}
        }
    }
    feeding.abort();
    drop(stage);
    Ok(Exit::Done)
}

fn take(model: &mut Model, news: Heard) {
    let now = SystemClock.now();
    match news {
        Heard::Listed { items, damaged, more } => {
            model.found_damaged(damaged);
            model.listed(items, more, now);
        }
        Heard::Doubts(doubts) => model.doubted(doubts),
        Heard::Asked(asked) => model.asked(*asked, now),
        Heard::DeniedBefore { id, denials } => model.denied_before(&id, denials),
        Heard::Decided { id, words } => model.decided(&id, &words, now),
        Heard::Answered { id, answer } => model.answered(&id, answer, now),
        Heard::Lost(words) => model.lost(words),
    }
}

/// Colours only where they are wanted.
fn coloured(paint: Paint, colour: ratatui::style::Color) -> ratatui::style::Style {
    match paint {
        Paint::Ansi => ratatui::style::Style::new().fg(colour),
        Paint::Plain => ratatui::style::Style::new(),
    }
}
