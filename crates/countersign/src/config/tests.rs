//! What wins over what, and how mistakes are reported.

use super::*;

fn load(text: &str, environment: &Environment) -> Result<Config, ConfigErrors> {
    Config::assemble(Some(Path::new("/etc/cs/countersign.toml")), text, &Shared::default(), environment)
}

fn home() -> Environment {
    Environment::from([("HOME", "/home/ann")])
}

fn reasons(text: &str) -> Vec<String> {
    let errors = load(text, &home()).unwrap_err();
    errors.iter().map(|error| format!("{}: {}", error.place, error.reason)).collect()
}

#[test]
fn nothing_said_means_the_safe_defaults() {
    let config = load("", &home()).unwrap();
    assert_eq!(config.listen, DEFAULT_LISTEN);
    assert_eq!(config.approvals.remember, Remember::Call);
    assert!(!config.approvals.agent_may_decide);
    assert_eq!(config.approvals.expires, Duration::from_secs(86_400));
    assert!(config.data_dir.starts_with("/home/ann") && config.data_dir.ends_with("countersign"));
}

#[test]
fn the_file_of_the_contract_is_read() {
    let text = "listen = \"127.0.0.1:1\"\ndata_dir = \"d\"\n[approvals]\nexpires = \"1h\"\nremember = \"session\"\n\
                agent_may_decide = true\nclient_elicitation = \"never\"\npark_after = \"5s\"\n\
                [[rule]]\nmatch = \"a.*\"\neffect = \"deny\"\n";
    let config = load(text, &home()).unwrap();
    assert_eq!(config.data_dir, Path::new("/etc/cs/d"), "relative to the file, wherever the command is run");
    assert_eq!(config.settings().expires, Duration::from_secs(3600));
    assert_eq!(config.settings().remember, Remember::Session, "as in the seeds");
    assert_eq!(config.settings().park_after, Duration::from_secs(5));
    assert!(config.approvals.agent_may_decide);
    assert_eq!(config.approvals.client_elicitation, ClientElicitation::Never);
    assert_eq!(config.policy.rules().len(), 1);
}

#[test]
fn weaker_isolation_of_scripts_is_allowed_only_where_the_operator_says_so() {
    assert_eq!(load("", &home()).unwrap().isolation, RequiredIsolation::Strict);
    let allowed = load("[sandbox]\nallow_weaker = true\n", &home()).unwrap();
    assert_eq!(allowed.isolation, RequiredIsolation::AllowWeaker);
    let environment = Environment::from([("HOME", "/h"), ("COUNTERSIGN_SANDBOX_ALLOW_WEAKER", "true")]);
    assert_eq!(load("", &environment).unwrap().isolation, RequiredIsolation::AllowWeaker);
    let misspelt = reasons("[sandbox]\nallow_weaker = \"yes\"\nallow_stronger = true\n").join("\n");
    assert!(
        misspelt.contains("true or false") && misspelt.contains("no key `sandbox.allow_stronger`"),
        "{misspelt}"
    );
}

#[test]
fn writes_ask_where_the_file_says_so_and_are_allowed_where_it_says_nothing() {
    assert_eq!(load("", &home()).unwrap().policy.writes(), Writes::Allow);
    let asking =
        load("[approvals]\nwrites = \"ask\"\n[[rule]]\nmatch = \"a.*\"\neffect = \"deny\"\n", &home());
    let policy = asking.unwrap().policy;
    assert_eq!((policy.writes(), policy.rules().len()), (Writes::Ask, 1));
    let said = reasons("[approvals]\nwrites = \"never\"\n").join("\n");
    assert!(said.contains("\"allow\" and \"ask\""), "{said}");
}

#[test]
fn the_environment_wins_over_the_file_and_flags_over_both() {
    let environment = Environment::from([
        ("HOME", "/home/ann"),
        ("COUNTERSIGN_APPROVALS_EXPIRES", "2h"),
        ("COUNTERSIGN_DATA_DIR", "/env"),
        ("COUNTERSIGN_LISTEN", ""),
    ]);
    let config = load("data_dir = \"/file\"\n[approvals]\nexpires = \"1h\"", &environment).unwrap();
    assert_eq!((config.approvals.expires, config.data_dir), (Duration::from_secs(7200), "/env".into()));
    let shared = Shared { data_dir: Some("/flag".into()), ..Shared::default() };
    let config = Config::assemble(None, "", &shared, &environment).unwrap();
    assert_eq!(config.data_dir, Path::new("/flag"));
}

#[test]
fn everything_wrong_is_said_at_once_with_its_line() {
    let text = "lissten = 1\nlisten = \"here\"\ndatabase_url = \"postgres://\"\n[approvals]\nexpires = 5\n\
                remember = \"always\"\nagent_may_decide = \"no\"\nforever = true\n[[rule]]\nmatch = \"a.b\"\neffect = \"maybe\"\n";
    let all = reasons(text).join("\n");
    for (line, word) in [
        (1, "no key `lissten`"),
        (2, "is no address"),
        (3, "not supported"),
        (5, "must be a string"),
        (6, "\"call\" and \"session\""),
        (7, "true or false"),
        (8, "no key `approvals.forever`"),
        (11, "is no effect"),
    ] {
        let start = format!("/etc/cs/countersign.toml:{line}: ");
        assert!(all.lines().any(|l| l.starts_with(&start) && l.contains(word)), "{line} {word}\n{all}");
    }
}

#[test]
fn what_is_no_toml_is_said_once() {
    let all = reasons("listen = \n");
    assert_eq!(all.len(), 1, "{all:?}");
    assert!(all[0].starts_with("/etc/cs/countersign.toml:1: not TOML"), "{all:?}");
}

#[test]
fn a_bad_variable_is_named() {
    let environment = Environment::from([("HOME", "/h"), ("COUNTERSIGN_APPROVALS_REMEMBER", "always")]);
    let errors = load("", &environment).unwrap_err();
    assert_eq!(errors.iter().next().unwrap().place, "COUNTERSIGN_APPROVALS_REMEMBER");
}

#[test]
fn a_misspelt_variable_is_noticed() {
    let environment =
        Environment::from([("COUNTERSIGN_APROVALS_EXPIRES", "1h"), ("COUNTERSIGN_LOG", "info")]);
    assert_eq!(environment.strangers(), ["COUNTERSIGN_APROVALS_EXPIRES"]);
}

#[test]
fn a_home_that_is_not_there_and_a_tilde_are_refused_with_advice() {
    let errors = load("", &Environment::default()).unwrap_err();
    assert!(errors.to_string().contains("--data-dir"), "{errors}");
    assert!(reasons("data_dir = \"~/x\"")[0].contains("whole path"));
}

#[test]
fn r18_nothing_that_an_agents_client_sets_chooses_files_or_keys() {
    let environment = Environment::from([
        ("HOME", "/evil"),
        ("XDG_CONFIG_HOME", "/evil"),
        ("XDG_DATA_HOME", "/evil"),
        ("COUNTERSIGN_CONFIG", "/evil/countersign.toml"),
        ("COUNTERSIGN_DATA_DIR", "/evil"),
        ("COUNTERSIGN_APPROVALS_AGENT_MAY_DECIDE", "true"),
        ("COUNTERSIGN_URL", "https://gate.example.com"),
        ("COUNTERSIGN_TOKEN", "t"),
    ]);
    let ignored = ["COUNTERSIGN_APPROVALS_AGENT_MAY_DECIDE", "COUNTERSIGN_CONFIG", "COUNTERSIGN_DATA_DIR"];
    assert_eq!(environment.not_for_clients(), ignored);
    let left = environment.of_a_client();
    for name in ignored.iter().chain(&["XDG_CONFIG_HOME", "XDG_DATA_HOME"]) {
        assert_eq!(left.text(name), None, "{name}");
    }
    assert_eq!(left.text("COUNTERSIGN_URL").as_deref(), Some("https://gate.example.com"));
    #[cfg(unix)]
    assert_ne!(left.path("HOME"), Some("/evil".into()), "the user database says where home is");
}

#[test]
fn every_key_that_was_set_is_named_with_what_set_it() {
    let environment = Environment::from([("HOME", "/home/ann"), ("COUNTERSIGN_APPROVALS_EXPIRES", "2h")]);
    let config = load("listen = \"127.0.0.1:1\"\n[approvals]\nexpires = \"1h\"\n", &environment).unwrap();
    let told = config.in_force();
    let set: Vec<String> =
        told.settings.iter().map(|s| format!("{}={} {}", s.key, s.value, s.from)).collect();
    assert_eq!(
        set,
        [
            "listen=127.0.0.1:1 /etc/cs/countersign.toml:1",
            "approvals.expires=2h COUNTERSIGN_APPROVALS_EXPIRES"
        ]
    );
    assert_eq!(told.file.as_deref(), Some("/etc/cs/countersign.toml"));
    assert_eq!(told.sha256.map(|digest| digest.len()), Some(64));
}

#[test]
fn a_source_of_the_file_is_told_with_its_line_and_its_mistakes_stop_the_start() {
    let source = "[[source]]\nname = \"files\"\nkind = \"mcp\"\ncommand = [\"files-server\"]\n";
    let config = load(&format!("listen = \"127.0.0.1:1\"\n{source}"), &home()).unwrap();
    assert_eq!(config.sources[0].name, "files");
    let told = config.in_force().settings;
    let of_source = told.iter().find(|setting| setting.key == "source.files").unwrap();
    assert_eq!(of_source.from, "/etc/cs/countersign.toml:2");
    assert!(of_source.value.contains("files-server"), "{of_source:?}");
    let wrong = reasons(&format!("{source}trusted = true\n"));
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert!(
        wrong[0].starts_with("/etc/cs/countersign.toml:5: there is no key `source.trusted`"),
        "{wrong:?}"
    );
}
