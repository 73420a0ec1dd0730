//! Replay: however a script's completions were cut into turns, it asks for the same, logs the same and ends the same.

use super::*;
use proptest::prelude::*;

/// A piece of a random script.
#[derive(Debug, Clone)]
enum Piece {
    Call,
    Caught,
    All(Vec<Piece>),
    AllSettled(Vec<Piece>),
    Race(Vec<Piece>),
    Sequence(Vec<Piece>),
    Sleep(u32),
    Forgotten,
    Chance(Vec<Piece>),
}

fn piece() -> impl Strategy<Value = Piece> {
    let leaf = prop_oneof![
        4 => Just(Piece::Call),
        2 => Just(Piece::Caught),
        1 => (0..1000_u32).prop_map(Piece::Sleep),
        1 => Just(Piece::Forgotten),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let some = prop::collection::vec(inner, 1..4);
        prop_oneof![
            some.clone().prop_map(Piece::All),
            some.clone().prop_map(Piece::AllSettled),
            some.clone().prop_map(Piece::Race),
            some.clone().prop_map(Piece::Sequence),
            some.prop_map(Piece::Chance),
        ]
    })
}

/// An expression that is a promise.
fn code(piece: &Piece, names: &mut u32) -> String {
    *names += 1;
    let n = *names;
    let list = |pieces: &[Piece], names: &mut u32| {
        pieces.iter().map(|piece| code(piece, names)).collect::<Vec<_>>().join(", ")
    };
    match piece {
        Piece::Call => format!("see({n}, tools.t.n{n}({{ n: {n}, at: Date.now(), r: Math.random() }}))"),
        Piece::Caught => format!("see({n}, tools.t.n{n}({{ n: {n} }}).catch((e) => e.code + e.path))"),
        Piece::All(pieces) => format!("see({n}, Promise.all([{}]))", list(pieces, names)),
        Piece::AllSettled(pieces) => format!("see({n}, Promise.allSettled([{}]))", list(pieces, names)),
        Piece::Race(pieces) => format!("see({n}, Promise.race([{}]))", list(pieces, names)),
        Piece::Sleep(ms) => format!("see({n}, sleep({ms}))"),
        Piece::Forgotten => format!("(tools.t.lost{n}({{}}).catch(() => console.warn('lost {n}')), {n})"),
        Piece::Sequence(pieces) => {
            let steps: String =
                pieces.iter().map(|piece| format!("r.push(await {}); ", code(piece, names))).collect();
            format!("see({n}, (async () => {{ const r = []; {steps} return r }})())")
        }
        Piece::Chance(pieces) => {
            let steps: String = pieces
                .iter()
                .map(|piece| format!("if (Math.random() < 0.6) await {}; ", code(piece, names)))
                .collect();
            format!("see({n}, (async () => {{ {steps} return Math.random() }})())")
        }
    }
}

fn script(pieces: &[Piece]) -> String {
    let mut names = 0;
    let steps: String =
        pieces.iter().map(|piece| format!("out.push(await {});\n", code(piece, &mut names))).collect();
    format!(
        "const out = [];\nconst see = async (n, p) => {{ try {{ const v = await p; console.log(n, v, Date.now()); return v }} \
         catch (e) {{ console.error(n, e, Date.now()); throw e }} }};\n{steps}return out;"
    )
}

/// All requests and log lines of a script, over all turns.
#[derive(Debug, Clone, Default, PartialEq)]
struct Story {
    requests: Vec<Request>,
    logs: Vec<LogLine>,
    end: Option<ScriptEnd>,
}

impl Story {
    fn tell(&mut self, turn: Turn) {
        self.requests.extend(turn.requests);
        self.logs.extend(turn.logs);
        self.end = turn.end;
    }
}

/// Runs it live, one completion a turn, in an order that `choices` picks.
fn live(program: &Program, choices: &[u16]) -> (Story, Vec<Completion>) {
    let mut engine = Engine::new(&Limits::default()).unwrap();
    let mut story = Story::default();
    story.tell(engine.start(program).unwrap());
    let (mut open, mut journal) = (Vec::new(), Vec::new());
    let mut seen = 0;
    for (round, choice) in choices.iter().cycle().enumerate() {
        open.extend(story.requests[seen..].iter().map(|request| request.no));
        seen = story.requests.len();
        if story.end.is_some() || open.is_empty() {
            break;
        }
        let no = open.remove(usize::from(*choice) % open.len());
        let at = NOW + round as u64;
        let completion = match choice % 4 {
            0 => failed(no, at, "denied", "no"),
            _ => done(no, at, &json!({ "no": no, "choice": choice })),
        };
        journal.push(completion.clone());
        story.tell(engine.deliver(&[completion]).unwrap());
    }
    (story, journal)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_replay_in_any_batches_tells_the_same_story(
        pieces in prop::collection::vec(piece(), 1..5),
        choices in prop::collection::vec(any::<u16>(), 1..40),
        cuts in prop::collection::vec(1..9_usize, 1..8),
    ) {
        let program = program(&script(&pieces));
        let (told, journal) = live(&program, &choices);
        let mut engine = Engine::new(&Limits::default()).unwrap();
        let mut retold = Story::default();
        retold.tell(engine.start(&program).unwrap());
        let mut rest = journal.as_slice();
        for cut in cuts.iter().cycle() {
            if rest.is_empty() || retold.end.is_some() {
                break;
            }
            let (batch, later) = rest.split_at(rest.len().min(*cut));
            retold.tell(engine.deliver(batch).unwrap());
            rest = later;
        }
        prop_assert_eq!(retold, told);
    }
}
