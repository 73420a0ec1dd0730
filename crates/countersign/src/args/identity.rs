//! The flags of `token` and `user`.

use clap::{Args, Subcommand, ValueEnum};

const TOKEN_EXAMPLES: &str = "\
Examples:
  countersign token create --role agent --name ci             prints the secret, once, alone on standard output
  export COUNTERSIGN_TOKEN=$(countersign token create --role approver --name ann)
  countersign token list
  countersign token revoke tok_…

An agent calls and waits, and never decides. An approver decides. An admin does all. A service calls only tools that allow
service accounts. The first start makes admin.token and agent.token in the data folder; commands use them by themselves.";

#[derive(Debug, Subcommand)]
#[command(after_help = TOKEN_EXAMPLES)]
pub(crate) enum TokenCommand {
    /// Make a token; its secret is shown once
    Create(TokenArgs),
    /// Show all tokens; no secrets
    List,
    /// Refuse a token from now on
    Revoke {
        /// The token (tok_…)
        id: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    /// What it may do
    #[arg(long, value_name = "agent|approver|admin|service|worker")]
    pub(crate) role: RoleArg,
    /// What people call it
    #[arg(long, value_name = "NAME")]
    pub(crate) name: String,
    /// Whose it is, or for whom the agent acts: a user's name or id [default: you]
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// For an agent: prompts in its client reach a person, so that an answer there counts as the user's, for that one call
    #[arg(long)]
    pub(crate) attended: bool,
    /// For how long it is good, such as 12h or 30d [default: until it is revoked]
    #[arg(long, value_name = "DURATION")]
    pub(crate) expires: Option<String>,
}

const USER_EXAMPLES: &str = "\
Examples:
  countersign user add ann --role approver
  countersign user invite ann                                 a link that lets Ann into the console (single use, 10 min)
  countersign user disable ann                                Ann's logins and tokens, and her agents', stop at once

Only users decide. The first start makes one, the operator; the commands on this machine act as the operator.";

#[derive(Debug, Subcommand)]
#[command(after_help = USER_EXAMPLES)]
pub(crate) enum UserCommand {
    /// Add a user
    Add {
        /// What people call them
        name: String,
        /// What they may do; without one they only own agents
        #[arg(long, value_name = "approver|admin")]
        role: Vec<UserRoleArg>,
    },
    /// Show all users
    List,
    /// Refuse everything a user and their agents do, from now on
    Disable {
        /// The user's name or id
        user: String,
    },
    /// Take a disabled user back
    Enable {
        /// The user's name or id
        user: String,
    },
    /// Print a link that lets a user into the console, once, within ten minutes
    Invite {
        /// The user's name or id
        user: String,
    },
}

/// The roles of users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UserRoleArg {
    /// Decides
    Approver,
    /// Does all
    Admin,
}

/// The roles, under the names that clients see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleArg {
    /// Calls and waits
    Agent,
    /// Decides
    Approver,
    /// Does all
    Admin,
    /// Calls what allows service accounts
    Service,
    /// Registers tools
    Worker,
}

impl std::fmt::Display for RoleArg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Agent => "agent",
            Self::Approver => "approver",
            Self::Admin => "admin",
            Self::Service => "service",
            Self::Worker => "worker",
        })
    }
}
