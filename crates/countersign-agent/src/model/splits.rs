//! A stream means the same wherever the network splits it: both protocols, at every byte.

use futures_util::FutureExt;
use serde_json::json;

use crate::message::{OpaqueBlock, ToolCall};
use crate::model::so_far::{TurnSoFar, WholeTurn};
use crate::model::sse::Events;
use crate::model::{ModelError, anthropic, openai};
use crate::queue::Events as Silence;

const OPENAI: &str = include_str!("../../tests/recorded/openai.sse");
const ANTHROPIC: &str = include_str!("../../tests/recorded/anthropic.sse");
const THINKING: &str = include_str!("../../tests/recorded/anthropic-thinking.sse");
/// Which stream, by which protocol.
const STREAMS: [(Protocol, &str); 3] =
    [(Protocol::OpenAi, OPENAI), (Protocol::Anthropic, ANTHROPIC), (Protocol::Anthropic, THINKING)];

/// Which protocol reads.
#[derive(Debug, Clone, Copy)]
enum Protocol {
    OpenAi,
    Anthropic,
}

fn read(protocol: Protocol, pieces: Vec<&'static [u8]>) -> Result<WholeTurn, ModelError> {
    let mut turn = TurnSoFar::new(Silence::default());
    let events = Events::of_pieces(pieces);
    let done = match protocol {
        Protocol::OpenAi => openai::read_turn(events, &mut turn).now_or_never(),
        Protocol::Anthropic => anthropic::read_turn(events, &mut turn).now_or_never(),
    };
    done.expect("nothing is waited for")?;
    Ok(turn.finish())
}

fn call(id: &str, input: &str) -> ToolCall {
    ToolCall { id: id.into(), name: "read_file".into(), input: input.into() }
}

/// What a stream says, thoughts and all.
fn said(stream: &str) -> WholeTurn {
    if stream != THINKING {
        let calls = vec![call("call_a", "{\"path\":\"ä\"}"), call("call_b", "{\"path\":\"b\"}")];
        return WholeTurn { text: "Réading".into(), calls, blocks: Vec::new() };
    }
    let blocks = [
        json!({ "type": "thinking", "thinking": "Wo liegt ä?", "signature": "EqQBCgIYAhIM" }),
        json!({ "type": "redacted_thinking", "data": "EmwKAhgBEgy3" }),
    ];
    WholeTurn {
        text: "Réading".into(),
        calls: vec![call("call_a", "{\"path\":\"ä\"}")],
        blocks: blocks.map(|block| OpaqueBlock::new("anthropic", block)).into(),
    }
}

#[test]
fn a_stream_means_the_same_at_whichever_byte_it_is_split() {
    for (protocol, stream) in STREAMS {
        let whole = said(stream);
        let bytes = stream.as_bytes();
        for at in 0..=bytes.len() {
            let read = read(protocol, vec![&bytes[..at], &bytes[at..]]).unwrap();
            assert_eq!(read, whole, "{protocol:?} split at {at}");
        }
        assert_eq!(read(protocol, bytes.chunks(1).collect()).unwrap(), whole, "{protocol:?} byte by byte");
    }
}

#[test]
fn a_stream_that_is_cut_at_whichever_byte_is_an_error_or_whole_and_never_half_a_turn() {
    for (protocol, stream) in STREAMS {
        let bytes = stream.as_bytes();
        let whole = read(protocol, vec![bytes]).unwrap();
        for at in 0..bytes.len() {
            if let Ok(read) = read(protocol, vec![&bytes[..at]]) {
                assert_eq!(read, whole, "{protocol:?} cut at {at}");
            }
        }
    }
}
