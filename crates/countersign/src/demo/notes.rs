//! `notes.*`: reading and adding flow through; deleting waits for a person.

use std::sync::Arc;

use countersign_sdk::{Approved, Ctx, Remember, Tool, ToolError};
use rusqlite::OptionalExtension as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Nothing;
use super::database::Database;

#[derive(Debug, Serialize, JsonSchema)]
struct Note {
    /// Its number.
    id: i64,
    title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Notes {
    notes: Vec<Note>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct AddNote {
    /// What the note is called.
    #[schemars(length(min = 1, max = 200))]
    title: String,
    /// What it says.
    body: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct DeleteNote {
    /// The note's number, as notes.list gives it.
    id: i64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Deleted {
    deleted: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Purged {
    /// How many notes there were.
    deleted: usize,
}

pub(super) fn tools(database: &Arc<Database>) -> [Tool; 4] {
    [
        list(Arc::clone(database)),
        add(Arc::clone(database)),
        delete(Arc::clone(database)),
        purge(Arc::clone(database)),
    ]
}

fn list(database: Arc<Database>) -> Tool {
    Tool::new("notes.list")
        .name("List Notes")
        .describe("Gives every note, oldest first.")
        .read_only()
        .handler(move |_: Ctx, _: Nothing| {
            let database = Arc::clone(&database);
            async move {
                let notes = database.with(|db| {
                    let mut all = db.prepare("SELECT id, title, body FROM notes ORDER BY id")?;
                    let notes = all.query_map([], |row| {
                        Ok(Note { id: row.get(0)?, title: row.get(1)?, body: row.get(2)? })
                    })?;
                    notes.collect()
                })?;
                Ok::<_, ToolError>(Notes { notes })
            }
        })
}

fn add(database: Arc<Database>) -> Tool {
    Tool::new("notes.add")
        .name("Add Note")
        .describe("Adds a note and gives it back with its number.")
        .handler(move |_: Ctx, input: AddNote| {
            let database = Arc::clone(&database);
            async move {
                let AddNote { title, body } = input;
                let id = database.with(|db| {
                    db.execute("INSERT INTO notes (title, body) VALUES (?1, ?2)", (&title, &body))?;
                    Ok(db.last_insert_rowid())
                })?;
                Ok::<_, ToolError>(Note { id, title, body })
            }
        })
}

fn delete(database: Arc<Database>) -> Tool {
    Tool::new("notes.delete")
        .name("Delete Note")
        .describe("Deletes one note for good.")
        .remember(Remember::Session)
        .destructive(|input: &DeleteNote| {
            format!("Permanently delete note \"{}\"? This cannot be undone.", input.id)
        })
        .handler(move |_: Ctx, input: Approved<DeleteNote>| {
            let database = Arc::clone(&database);
            async move {
                let gone = database.with(|db| {
                    db.query_row("DELETE FROM notes WHERE id = ?1 RETURNING id", [input.id], |_| Ok(()))
                        .optional()
                })?;
                match gone {
                    Some(()) => Ok(Deleted { deleted: true }),
                    None => {
                        Err(ToolError::with_code("note_not_found", format!("There is no note {}.", input.id)))
                    }
                }
            }
        })
}

fn purge(database: Arc<Database>) -> Tool {
    Tool::new("notes.purge")
        .name("Purge Notes")
        .describe("Deletes every note for good.")
        .remember(Remember::Call)
        .destructive(|_: &Nothing| "Permanently delete all notes? This cannot be undone.".to_owned())
        .handler(move |_: Ctx, _: Approved<Nothing>| {
            let database = Arc::clone(&database);
            async move {
                let deleted = database.with(|db| db.execute("DELETE FROM notes", []))?;
                Ok::<_, ToolError>(Purged { deleted })
            }
        })
}
