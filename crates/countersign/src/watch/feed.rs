//! What the server tells: the list whenever the connection is new, then each question as it comes and goes.

use countersign_server::wire::{Decision, Elicitation, ElicitationResponse};
use tokio::sync::mpsc::Sender;

use super::model::MOST_ITEMS;
use crate::client::{self, Client, News, Part};
use crate::exit::Problem;
use crate::report;

/// Something that the view has to know.
pub(super) enum Heard {
    /// Everything that waits.
    Listed { items: Vec<Elicitation>, more: bool },
    /// A new question.
    Asked(Box<Elicitation>),
    /// A question ended.
    Decided { id: String, words: String },
    /// What came of a decision made here.
    Answered { id: String, answer: Result<ElicitationResponse, Problem> },
    /// The server cannot be heard; it is tried again.
    Lost(String),
}

/// Follows the server until nobody listens.
pub(super) async fn follow(client: Client, tell: Sender<Heard>) {
    let mut events = client.events();
    loop {
        let heard = match events.next().await {
            client::Heard::Connected => listed(&client).await,
            client::Heard::News(news) => told(&client, &news).await,
            client::Heard::Lost(problem) => Ok(Some(Heard::Lost(problem.message))),
        };
        let heard = heard.unwrap_or_else(|problem| Some(Heard::Lost(problem.message)));
        if let Some(heard) = heard
            && tell.send(heard).await.is_err()
        {
            return;
        }
    }
}

async fn listed(client: &Client) -> Result<Option<Heard>, Problem> {
    let (mut items, mut part) = (Vec::new(), Some(Part::default()));
    while let Some(wanted) = part.take() {
        let list = client.elicitations(&wanted).await?;
        part = Part::after(&list);
        items.extend(list.items);
        if items.len() >= MOST_ITEMS {
            break;
        }
    }
    Ok(Some(Heard::Listed { items, more: part.is_some() }))
}

async fn told(client: &Client, news: &News) -> Result<Option<Heard>, Problem> {
    let Some(id) = news.data["elicitationId"].as_str() else { return Ok(None) };
    let decided = |decision: &Decision| {
        Some(Heard::Decided { id: id.to_owned(), words: report::told_decision(decision) })
    };
    match news.name.as_str() {
        "elicitation.pending" => {
            let asked = client.elicitation(id).await?;
            Ok(match &asked.decision {
                Some(decision) => decided(decision),
                None => Some(Heard::Asked(Box::new(asked))),
            })
        }
        "elicitation.decided" => {
            let asked = client.elicitation(id).await?;
            Ok(asked.decision.as_ref().and_then(decided))
        }
        _ => Ok(None),
    }
}
