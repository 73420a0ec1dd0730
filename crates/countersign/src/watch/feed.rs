//! What the server tells: the list whenever the connection is new, then each question as it comes and goes.

use countersign_server::wire::{Damaged, Elicitation, ElicitationResponse, ExecutionSummary, Status};
use tokio::sync::mpsc::Sender;

use super::model::MOST_ITEMS;
use crate::client::{self, Client, News, Part};
use crate::denials;
use crate::exit::Problem;
use crate::names::Names;
use crate::report;

/// Something that the view has to know.
pub(super) enum Heard {
    /// Everything that waits.
    Listed { items: Vec<Elicitation>, damaged: Vec<Damaged>, more: bool },
    /// The executions with a call in doubt, as they are now.
    Doubts(Vec<ExecutionSummary>),
    /// A new question.
    Asked(Box<Elicitation>),
    /// How exactly the same thing was denied before.
    DeniedBefore { id: String, denials: Vec<String> },
    /// A question ended.
    Decided { id: String, words: String },
    /// What came of a decision made here.
    Answered { id: String, answer: Result<ElicitationResponse, Problem> },
    /// The server cannot be heard; it is tried again.
    Lost(String),
}

/// Follows the server until nobody listens.
pub(super) async fn follow(client: Client, names: Names, tell: Sender<Heard>) {
    let mut events = client.events();
    let mut in_doubt = 0;
    loop {
        let next = events.next().await;
        if concerns_doubts(&next, in_doubt)
            && let Ok(list) = client.executions(&[Status::InDoubt], &Part::default()).await
        {
            in_doubt = list.items.len();
            if tell.send(Heard::Doubts(list.items)).await.is_err() {
                return;
            }
        }
        let heard = match next {
            client::Heard::Connected => listed(&client).await,
            client::Heard::News(news) => Ok(told(*news, &names)),
            client::Heard::Lost(problem) => Ok(Some(Heard::Lost(problem.message))),
        };
        let heard = heard.unwrap_or_else(|problem| Some(Heard::Lost(problem.message)));
        let Some(heard) = heard else { continue };
        let asked: Vec<Elicitation> = match &heard {
            Heard::Listed { items, .. } => items.clone(),
            Heard::Asked(asked) => vec![asked.as_ref().clone()],
            _ => Vec::new(),
        };
        if tell.send(heard).await.is_err() {
            return;
        }
        for one in asked {
            let denials = denials::of(&client, &names, &one).await;
            let id = one.question.elicitation_id;
            if !denials.is_empty() && tell.send(Heard::DeniedBefore { id, denials }).await.is_err() {
                return;
            }
        }
    }
}

/// Whether a call may have come into doubt or out of it.
fn concerns_doubts(heard: &client::Heard, in_doubt: usize) -> bool {
    match heard {
        client::Heard::Connected => true,
        client::Heard::News(news) => news.happened.status == Status::InDoubt || in_doubt > 0,
        client::Heard::Lost(_) => false,
    }
}

async fn listed(client: &Client) -> Result<Option<Heard>, Problem> {
    let (mut items, mut damaged, mut part) = (Vec::new(), Vec::new(), Some(Part::default()));
    while let Some(wanted) = part.take() {
        let list = client.elicitations(&wanted).await?;
        part = Part::after(&list);
        items.extend(list.items);
        damaged.extend(list.damaged);
        if items.len() >= MOST_ITEMS {
            break;
        }
    }
    Ok(Some(Heard::Listed { items, damaged, more: part.is_some() }))
}

/// What an event means for the list. It says how the question stands by now, which may be later than the event.
fn told(news: News, names: &Names) -> Option<Heard> {
    let asked = news.happened.elicitation?;
    match (news.name.as_str(), &asked.decision) {
        ("elicitation.pending" | "elicitation.decided", Some(decision)) => {
            let (id, words) = (asked.question.elicitation_id.clone(), report::told_decision(decision, names));
            Some(Heard::Decided { id, words })
        }
        ("elicitation.pending", None) => Some(Heard::Asked(Box::new(asked))),
        _ => None,
    }
}
