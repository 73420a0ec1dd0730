//! What the server asks the client, under names of the bridge's own.
//!
//! Every session of a server numbers its questions from the start again. So the client sees a question under a name that
//! says which session asked it: a late yes to a question of a session that is gone is then never the yes to another
//! question, which nobody has seen.

use std::collections::VecDeque;

use serde_json::json;

use super::Bridge;
use super::message::{FromServer, Id, from_server, renamed};

/// How many questions of the server's may be open in the client at once.
const MAX_QUESTIONS: usize = 1_024;

/// A question, by the session that asked it and the id that the server gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) generation: u64,
    pub(super) asked: Id,
}

/// The questions that the client has not answered, oldest first.
#[derive(Debug, Default)]
pub(super) struct Questions(VecDeque<Question>);

impl Question {
    /// The id that the client sees. The server's own is in it as it was written, so that `1` and `"1"` stay two.
    pub(super) fn shown(&self) -> Id {
        Id::written(json!(format!("g{}-{}", self.generation, self.asked.as_json())).to_string())
    }
}

impl Questions {
    /// It is open. Where there are too many, the oldest is forgotten: a server that asks so much has dropped it long ago.
    pub(super) fn open(&mut self, question: Question) {
        self.close(&question);
        if self.0.len() >= MAX_QUESTIONS {
            self.0.pop_front();
        }
        self.0.push_back(question);
    }

    /// Nobody waits for its answer any more.
    pub(super) fn close(&mut self, question: &Question) {
        self.0.retain(|open| open != question);
    }

    /// The question that the client answers, if it is open; then it is not any more.
    pub(super) fn take(&mut self, shown: &Id) -> Option<Question> {
        let at = self.0.iter().position(|open| open.shown() == *shown)?;
        self.0.remove(at)
    }

    /// All of them; none is open any more.
    pub(super) fn drain(&mut self) -> Vec<Question> {
        self.0.drain(..).collect()
    }
}

impl Bridge {
    /// A message on a stream of the server's, as the client is to see it; none where it is a question of a session that
    /// is gone, because its answer could go nowhere.
    pub(super) fn for_client(&self, generation: u64, text: String) -> Option<String> {
        match from_server(&text) {
            Some(FromServer::Question(asked)) => {
                let question = Question { generation, asked };
                let shown = question.shown();
                let is_open = self.session.asked(question);
                if !is_open {
                    tracing::debug!("a question of a session that is gone");
                }
                is_open.then(|| renamed(&text, &shown)).flatten()
            }
            Some(FromServer::Withdrawal(asked)) => {
                let question = Question { generation, asked };
                self.session.withdrawn(&question);
                renamed(&text, &question.shown())
            }
            _ => Some(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(number: usize) -> Question {
        Question { generation: 1, asked: Id::written(number.to_string()) }
    }

    #[test]
    fn at_the_bound_the_oldest_question_is_forgotten_and_the_newest_can_be_answered() {
        let mut questions = Questions::default();
        (0..MAX_QUESTIONS).for_each(|number| questions.open(question(number)));
        assert_eq!(questions.take(&question(0).shown()), Some(question(0)), "at the bound none is forgotten");
        (MAX_QUESTIONS..MAX_QUESTIONS + 2).for_each(|number| questions.open(question(number)));
        assert_eq!(questions.take(&question(1).shown()), None);
        let newest = question(MAX_QUESTIONS + 1);
        assert_eq!(questions.take(&newest.shown()), Some(newest));
    }

    #[test]
    fn the_same_id_of_two_sessions_or_of_two_kinds_is_shown_as_two() {
        let shown = |generation, written: &str| {
            Question { generation, asked: Id::written(written.to_owned()) }.shown()
        };
        assert_eq!(shown(2, "1").as_json(), r#""g2-1""#);
        assert_ne!(shown(1, "1"), shown(2, "1"));
        assert_ne!(shown(1, "1"), shown(1, r#""1""#));
    }

    #[test]
    fn a_question_that_is_withdrawn_takes_no_room() {
        let mut questions = Questions::default();
        for number in 0..=MAX_QUESTIONS {
            questions.open(question(number));
            if number > 0 {
                questions.close(&question(number));
            }
        }
        assert_eq!(questions.drain(), [question(0)]);
    }
}
