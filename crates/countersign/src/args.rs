//! The command line, as syntax. What it means is in `commands`.

mod identity;
mod source;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use countersign_server::wire::Status;

pub(crate) use identity::{TokenArgs, TokenCommand, UserCommand, UserRoleArg};
pub(crate) use source::{
    AcceptArgs, AddGraphQlArgs, AddMcpArgs, AddOpenApiArgs, AddSourceCommand, NamedVariable, Pair,
    ProtocolArg, QuestionsArg, SamplingArg, SourceCommand, SourceFlags,
};

use crate::commands::mcp::McpArgs;

const EXAMPLES: &str = "\
Examples:
  countersign --demo tools                                   what can be called
  countersign --demo call notes.add '{\"title\":\"Milk\"}'       reading and adding flow through
  countersign --demo call notes.delete '{\"id\":1}'            asks you first, here or from another shell:
  countersign inbox --watch                                  what waits for a person, live, with keys to decide
  countersign --demo approve eli_…                           let it run, once, with exactly what you saw
  countersign --demo run tidy.ts                             a script of many calls; asks you for each that needs it
  countersign executions exec_…                              what happened, step by step

Exit status: 0 done (also: waits for a person), 1 failed, 2 usage, 3 denied, cancelled or expired.
Commands ask the server at COUNTERSIGN_URL (with COUNTERSIGN_TOKEN), or the one that runs for the data folder, or the demo's.
Where none runs they work directly on the data folder. What waits for a person is kept there and survives a crash.
Environment: COUNTERSIGN_CONFIG and COUNTERSIGN_DATA_DIR like the flags, COUNTERSIGN_APPROVALS_EXPIRES and so on like the
keys of countersign.toml, COUNTERSIGN_LOG=debug for more on standard error, NO_COLOR. `mcp`, which an agent's client starts,
takes no configuration from either.";

/// The gateway between AI agents and the tools they call.
///
/// Reading flows through. Whatever destroys, sends or overwrites waits, durably, until a person countersigns it; then it
/// runs once, with exactly the arguments that the person saw.
#[derive(Debug, Parser)]
#[command(name = "countersign", version, after_help = EXAMPLES, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) shared: Shared,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags that every command takes.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Shared {
    /// The configuration file; else countersign.toml in your configuration folder, else defaults
    #[arg(long, global = true, value_name = "FILE", help_heading = "Everywhere")]
    pub(crate) config: Option<PathBuf>,
    /// Where executions and approvals are kept
    #[arg(long, global = true, value_name = "FOLDER", help_heading = "Everywhere")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Add the demo tools: notes.*, bank.*, stock.check, echo.say
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) demo: bool,
    /// Print one JSON document on standard output, and nothing else
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) json: bool,
    /// The token to show the server, read from a file; like COUNTERSIGN_TOKEN
    #[arg(long, global = true, value_name = "FILE", help_heading = "Everywhere")]
    pub(crate) token_file: Option<PathBuf>,
    /// Do not say which server or data folder was asked
    #[arg(long, short = 'q', global = true, help_heading = "Everywhere")]
    pub(crate) quiet: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// See it at work: a server with tools to play with, and a scripted agent that uses them
    #[command(after_help = DEMO_EXAMPLES)]
    Demo,
    /// Start the server (REST, MCP, web console)
    Serve(ServeArgs),
    /// Call one tool; where it needs a person, ask at this terminal
    Call(CallArgs),
    /// Run a script that calls tools; where one needs a person, ask at this terminal
    Run(RunArgs),
    /// Show what waits for a person, or with --watch see it come and decide with a key
    Inbox(InboxArgs),
    /// Say yes to what waits, and see it run
    Approve(ApproveArgs),
    /// Say no to what waits
    Deny(DenyArgs),
    /// List executions, or show one with its timeline
    Executions(ExecutionsArgs),
    /// Stop an execution; what waits for a person is withdrawn
    Cancel(CancelArgs),
    /// Say what became of a call that was interrupted and is in doubt
    Settle(SettleArgs),
    /// List or search the tools
    Tools(ToolsArgs),
    /// Add tools that live elsewhere (MCP, OpenAPI, GraphQL), and accept what they offer
    #[command(subcommand)]
    Source(SourceCommand),
    /// Check rules, or ask what they say of a call
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Read or verify the record of everything that happened
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Show or forget approvals that are remembered for a session
    #[command(subcommand)]
    Grants(GrantsCommand),
    /// Create, list or revoke tokens: who may talk to the server, and as what
    #[command(subcommand)]
    Token(TokenCommand),
    /// Add, list, disable or invite the people who decide
    #[command(subcommand)]
    User(UserCommand),
    /// Print a link that logs you in to the console, once
    Login,
    /// Say what is configured, what is reachable, and what is wrong
    Doctor,
    /// Speak MCP on standard input and output, through the server of the data folder or a remote one
    Mcp(McpArgs),
    /// Print what makes your shell complete these commands
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell
        shell: Shell,
    },
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  countersign completions bash > ~/.local/share/bash-completion/completions/countersign
  countersign completions zsh > ~/.zfunc/_countersign          with `fpath+=~/.zfunc` before `compinit`
  countersign completions fish > ~/.config/fish/completions/countersign.fish";

const INBOX_EXAMPLES: &str = "\
Examples:
  countersign inbox                          every question whole, and how to decide it
  countersign inbox --watch                  a full screen that is live; decide with a key
  countersign inbox --json                   one document: { \"items\": [ … ] }

Keys of --watch:
  j k, arrows   choose                       a   approve, as far as the page says
  PgUp PgDn     read the arguments           o   approve this call only, where it says more
  Enter         fill in a form               s   narrow an approval for the session
  ?  q          help, quit                   d   deny, with a reason
Arguments longer than the screen can be approved once you have read them to their end. Where no server runs, --watch is one
for as long as you stay: what agents and other commands call meanwhile comes to you.";

#[derive(Debug, Args)]
#[command(after_help = INBOX_EXAMPLES)]
pub(crate) struct InboxArgs {
    /// A full-screen view that is live: decide with a key
    #[arg(long, short = 'w')]
    pub(crate) watch: bool,
}

const GRANTS_EXAMPLES: &str = "\
Examples:
  countersign grants list                               what runs without asking in the session of `call` and `run`
  countersign grants list --session ses_…               in another session
  countersign grants clear                              ask again, for everything there
  countersign grants clear gra_…                        ask again, for this one";

#[derive(Debug, Subcommand)]
#[command(after_help = GRANTS_EXAMPLES)]
pub(crate) enum GrantsCommand {
    /// Show what is remembered
    List(GrantsScope),
    /// Forget what is remembered: later calls ask again
    Clear {
        /// Only this one
        id: Option<String>,
        #[command(flatten)]
        scope: GrantsScope,
    },
}

/// Whose remembered approvals.
#[derive(Debug, Args)]
pub(crate) struct GrantsScope {
    /// The session [default: your own, in which `call` and `run` act]
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
}

const DEMO_EXAMPLES: &str = "\
Nothing needs to be configured. The agent adds a note, wants to delete it and to pay somebody; each waits for you, at this
terminal or from another one: `countersign --data-dir DATA/demo inbox --watch`. The demo keeps its data in a folder of its own,
`demo` inside the data folder, unless you say where with --data-dir.";

const SERVE_EXAMPLES: &str = "\
Examples:
  countersign serve --demo                                   with tools to play with
  countersign serve --listen 127.0.0.1:0                     any free port; other commands find it by the data folder
  curl -H \"Authorization: Bearer $(cat DATA/agent.token)\" http://127.0.0.1:7420/api/tools

The first start writes admin.token and agent.token into the data folder. Agents call with the one; people decide with the
other, or with tokens of their own: `countersign token create`. Commands on this machine use them by themselves.";

#[derive(Debug, Args)]
#[command(after_help = SERVE_EXAMPLES)]
pub(crate) struct ServeArgs {
    /// The address to listen on; 127.0.0.1:7420 where nothing is said
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<std::net::SocketAddr>,
    /// How the log on standard error is written
    #[arg(long, value_name = "text|json", env = "COUNTERSIGN_LOG_FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON document a line.
    Json,
}

const CALL_EXAMPLES: &str = "\
Examples:
  countersign --demo call echo.say '{\"text\":\"hello\"}'
  countersign --demo call notes.add @note.json
  echo '{\"to\":\"ann\",\"amount\":5}' | countersign --demo call bank.pay - --no-wait

Where the call needs a person and this is a terminal, you are asked here. Elsewhere, or with --no-wait, the paused
execution is printed as JSON and the exit status is 0: decide later with `countersign approve` or `countersign deny`.";

#[derive(Debug, Args)]
#[command(after_help = CALL_EXAMPLES)]
pub(crate) struct CallArgs {
    /// The tool, such as notes.delete
    pub(crate) path: String,
    /// The arguments: JSON, @FILE, or - for standard input; {} where nothing is said
    #[arg(value_name = "JSON|@FILE|-")]
    pub(crate) input: Option<String>,
    /// The session to call in: what you approve for a session counts only there [default: your own]
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Do not ask here; leave it waiting for a person
    #[arg(long)]
    pub(crate) no_wait: bool,
    #[command(flatten)]
    pub(crate) identity: Identity,
}

/// As whom a command calls.
#[derive(Debug, Args)]
pub(crate) struct Identity {
    /// Call as an agent instead of as yourself: its token, @FILE, or `agent` for the data folder's agent.token
    #[arg(long = "as", value_name = "TOKEN|@FILE|agent")]
    pub(crate) as_token: Option<String>,
}

const RUN_EXAMPLES: &str = "\
Examples:
  countersign --demo run tidy.ts
  echo 'return await tools.notes.list({});' | countersign --demo run -
  countersign --demo tools show --types          what a script can call, as TypeScript

A script is the body of an async function, in TypeScript or JavaScript:
  const { notes } = await tools.notes.list({});
  for (const note of notes) await tools.notes.delete({ id: note.id });
  return notes.length;

A call that is denied throws an error with the code `denied`, which the script may catch. There is sleep(ms) and console;
there are no files, no network and no environment. Bounds: 64 MiB of memory, 10 s of computing (waiting is free), 256 KiB of
source, 10,000 calls, 1 MiB a value. A script that waits is kept: `countersign approve` brings it on, days later too.";

#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    /// The script: a file, or - for standard input
    #[arg(value_name = "FILE|-")]
    pub(crate) file: String,
    /// The session to run in: what you approve for a session counts only there [default: your own]
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Do not ask here; leave it waiting for a person
    #[arg(long)]
    pub(crate) no_wait: bool,
    #[command(flatten)]
    pub(crate) identity: Identity,
}

const APPROVE_EXAMPLES: &str = "\
Examples:
  countersign approve eli_…                                   shows the whole question, then asks
  countersign approve eli_… --yes --digest 3f2a…              for scripts: approves what has this digest, nothing else
  countersign --demo approve eli_… --remember call --comment 'checked with Ann'
  countersign --demo approve eli_… --data '{\"warehouseId\":\"WH-7\"}'

The call runs in the server. Where none runs it runs in this process, so its tool must be here: add --demo for a demo tool.";

#[derive(Debug, Args)]
#[command(after_help = APPROVE_EXAMPLES)]
pub(crate) struct ApproveArgs {
    /// The elicitation (eli_…), or its execution (exec_…) while it waits for only one
    pub(crate) id: String,
    /// What the approval covers: this call, or later calls of the tool in its session too; without it, what the question says
    #[arg(long, value_name = "call|session")]
    pub(crate) remember: Option<RememberArg>,
    /// For the session: cover only calls with the same arguments
    #[arg(long)]
    pub(crate) same_arguments: bool,
    /// For the session: cover at most so many later calls
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) uses: Option<u32>,
    /// Approve without being asked; needs --digest, which says what you have seen
    #[arg(long, requires = "digest")]
    pub(crate) yes: bool,
    /// The digest of the question you have seen (`inbox --json` shows it); nothing else is approved
    #[arg(long, value_name = "DIGEST")]
    pub(crate) digest: Option<String>,
    /// A word for the record
    #[arg(long, value_name = "TEXT")]
    pub(crate) comment: Option<String>,
    /// The answer to a form: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-")]
    pub(crate) data: Option<String>,
}

const DENY_EXAMPLES: &str = "\
Examples:
  countersign deny eli_…
  countersign deny exec_… --reason 'not on a Friday'          the caller reads why

Nothing of it runs. A script gets an error with the code `denied`, which it may catch.";

#[derive(Debug, Args)]
#[command(after_help = DENY_EXAMPLES)]
pub(crate) struct DenyArgs {
    /// The elicitation (eli_…), or its execution (exec_…) while it waits for only one
    pub(crate) id: String,
    /// Why: the caller reads it
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

const EXECUTIONS_EXAMPLES: &str = "\
Examples:
  countersign executions                                      the newest
  countersign executions --status paused --status in_doubt    what needs somebody
  countersign executions exec_…                               one, step by step
  countersign executions exec_… --json                        with its whole journal";

#[derive(Debug, Args)]
#[command(after_help = EXECUTIONS_EXAMPLES)]
pub(crate) struct ExecutionsArgs {
    /// Show this one, with its timeline
    pub(crate) id: Option<String>,
    /// Only those that stand here; may be given several times
    #[arg(long, value_name = "STATUS", conflicts_with = "id")]
    pub(crate) status: Vec<StatusArg>,
    /// How many at most
    #[arg(short = 'n', long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000), conflicts_with = "id")]
    pub(crate) limit: u16,
    /// Go on where an earlier list ended
    #[arg(long, value_name = "CURSOR", conflicts_with = "id")]
    pub(crate) cursor: Option<String>,
}

const CANCEL_EXAMPLES: &str = "\
Examples:
  countersign cancel exec_…
  countersign cancel exec_3f                                  ids may be cut while they are unique

A call that waits for a person does not run any more. One that has started is not interrupted: it comes to its end first.";

#[derive(Debug, Args)]
#[command(after_help = CANCEL_EXAMPLES)]
pub(crate) struct CancelArgs {
    /// The execution (exec_…)
    pub(crate) execution: String,
}

const SETTLE_EXAMPLES: &str = "\
Examples:
  countersign settle exec_… 0 --as failed --reason 'the bank shows nothing'
  countersign settle exec_… 0 --as done --value '{\"id\":7}'
  countersign --demo settle exec_… 0 --as retry

A call is in doubt when its process died after it started and before its outcome was recorded. Look at the outside system
first: `done` gives the caller this value, `failed` tells them it took no effect, `retry` runs it again.";

#[derive(Debug, Args)]
#[command(after_help = SETTLE_EXAMPLES)]
pub(crate) struct SettleArgs {
    /// The execution (exec_…)
    pub(crate) execution: String,
    /// The number of the call in it, from 0
    pub(crate) call: u32,
    /// What became of it
    #[arg(long = "as", value_name = "done|failed|retry")]
    pub(crate) settlement: SettlementArg,
    /// The value the caller gets where it is done: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-")]
    pub(crate) value: Option<String>,
    /// What the caller is told where it failed
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

const TOOLS_EXAMPLES: &str = "\
Examples:
  countersign tools                                           every tool of the server
  countersign tools delete note                               those that have these words
  countersign tools show notes.delete                         one, with its schemas
  countersign --demo tools                                    where no server runs, with the demo tools";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = TOOLS_EXAMPLES)]
pub(crate) struct ToolsArgs {
    /// Words to search for in paths, names and descriptions
    pub(crate) query: Vec<String>,
    #[command(subcommand)]
    pub(crate) show: Option<ToolsCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ToolsCommand {
    /// Show one tool with its schemas, or with --types any number of them as scripts see them
    Show(ShowArgs),
}

const SHOW_EXAMPLES: &str = "\
Examples:
  countersign --demo tools show notes.delete                 one tool: effects, source, schemas
  countersign --demo tools show --types                      every tool, as TypeScript
  countersign --demo tools show --types notes                those of a namespace
  countersign --demo tools show --types delete note          those that have these words
  countersign --demo tools show --types > tools.d.ts         for an editor, or an agent's prompt";

#[derive(Debug, Args)]
#[command(after_help = SHOW_EXAMPLES)]
pub(crate) struct ShowArgs {
    /// The tool, such as notes.delete; with --types also a namespace, or words to search for, or nothing for all
    #[arg(value_name = "PATH|QUERY")]
    pub(crate) wanted: Vec<String>,
    /// Print TypeScript declarations, for scripts that call `await tools.notes.delete({ id: 1 })`
    #[arg(long)]
    pub(crate) types: bool,
}

const POLICY_EXAMPLES: &str = "\
Examples:
  countersign policy check countersign.toml
  countersign policy explain bank.pay '{\"to\":\"ann\",\"amount\":101}'";

#[derive(Debug, Subcommand)]
#[command(after_help = POLICY_EXAMPLES)]
pub(crate) enum PolicyCommand {
    /// Check a countersign.toml: settings, rules, and the rules' own examples
    Check {
        /// The file
        file: PathBuf,
    },
    /// Say which rule decides a call, and why; nothing runs
    Explain(ExplainArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The tool, such as notes.delete
    pub(crate) path: String,
    /// The arguments: JSON, @FILE, or - for standard input; {} where nothing is said
    #[arg(value_name = "JSON|@FILE|-")]
    pub(crate) input: Option<String>,
    /// The session to ask for [default: your own]
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
}

const AUDIT_EXAMPLES: &str = "\
Examples:
  countersign audit tail                                      the last 20 records, then each new one
  countersign audit tail --lines 50 --no-follow
  countersign audit verify                                    follows the whole chain here; the server need not be believed
  countersign audit export > audit.jsonl
  countersign audit export --after 1200 >> audit.jsonl        what came since record 1200";

#[derive(Debug, Subcommand)]
#[command(after_help = AUDIT_EXAMPLES)]
pub(crate) enum AuditCommand {
    /// Follow the whole chain of records and say whether it is unbroken
    Verify,
    /// Print every record as a line of JSON, in the text that was hashed
    Export {
        /// Only those after this number
        #[arg(long, value_name = "NO", default_value_t = 0)]
        after: u64,
    },
    /// Show the newest records, then each new one as it comes; Ctrl-C ends it
    Tail {
        /// How many of the records so far
        #[arg(short = 'n', long, alias = "number", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
        lines: u16,
        /// End after the records so far
        #[arg(long)]
        no_follow: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RememberArg {
    /// For the one call that was shown
    Call,
    /// For every later call of the tool in its session
    Session,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SettlementArg {
    /// It took effect
    Done,
    /// It took no effect
    Failed,
    /// Run it again
    Retry,
}

/// The statuses, under the names that callers see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum StatusArg {
    Running,
    Paused,
    InDoubt,
    Succeeded,
    Failed,
    Cancelled,
}

impl From<StatusArg> for Status {
    fn from(arg: StatusArg) -> Self {
        match arg {
            StatusArg::Running => Self::Running,
            StatusArg::Paused => Self::Paused,
            StatusArg::InDoubt => Self::InDoubt,
            StatusArg::Succeeded => Self::Succeeded,
            StatusArg::Failed => Self::Failed,
            StatusArg::Cancelled => Self::Cancelled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
