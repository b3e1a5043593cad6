use super::*;

fn stdio(env: &[(&str, Secret)]) -> ToolDecl {
    ToolDecl {
        id: "policy".into(),
        mcp: McpDecl::Stdio {
            command: vec!["python".into(), "-m".into(), "policy".into()],
            env: env.iter().map(|(name, secret)| ((*name).to_owned(), secret.clone())).collect(),
        },
        scope: None,
        idempotent: Vec::new(),
        trust_annotations: false,
        start_timeout_ms: 1_500,
        passes: vec![],
    }
}

fn from(variable: &str) -> Secret {
    Secret::From { from: variable.into() }
}

fn node(name: &str) -> Option<String> {
    match name {
        "PATH" => Some("/bin".into()),
        "HOME" => Some("/home/a".into()),
        "GITHUB_TOKEN" => Some("ghp_0123456789".into()),
        "OTHER" => Some("other".into()),
        _ => None,
    }
}

#[test]
fn a_childs_environment_is_the_four_and_what_is_named() {
    let decl = stdio(&[("LOG_LEVEL", Secret::Plain("warning".into())), ("TOKEN", from("GITHUB_TOKEN"))]);
    let spec = ToolSpec::from_decl(&decl, Path::new("/plugins/release"), &node);
    let Transport::Stdio { env, cwd, .. } = &spec.transport else { panic!("{spec:?}") };
    let expected = [("PATH", "/bin"), ("HOME", "/home/a"), ("LOG_LEVEL", "warning"), ("TOKEN", "ghp_0123456789")];
    assert_eq!(env.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect::<Vec<_>>(), expected);
    assert_eq!((cwd.as_path(), spec.start_timeout), (Path::new("/plugins/release"), Duration::from_millis(1_500)));
    assert_eq!(spec.broken, None);
}

#[test]
fn a_named_variable_replaces_one_of_the_four() {
    let spec = ToolSpec::from_decl(&stdio(&[("PATH", Secret::Plain("/opt".into()))]), Path::new("/p"), &node);
    let Transport::Stdio { env, .. } = &spec.transport else { panic!("{spec:?}") };
    assert_eq!(
        env.iter().filter(|(name, _)| name == "PATH").collect::<Vec<_>>(),
        [&("PATH".to_owned(), "/opt".to_owned())]
    );
}

#[test]
fn missing_variables_are_named_all_at_once() {
    let spec = ToolSpec::from_decl(
        &stdio(&[("A", from("NO_A")), ("B", from("NO_B")), ("C", from("OTHER"))]),
        Path::new("/p"),
        &node,
    );
    let why = spec.broken.unwrap();
    assert!(why.contains("NO_A, NO_B") && !why.contains("OTHER"), "{why}");
}

#[test]
fn no_secret_stands_in_debug_output() {
    let mut decl = stdio(&[("TOKEN", from("GITHUB_TOKEN"))]);
    let text = format!("{:?}", ToolSpec::from_decl(&decl, Path::new("/p"), &node));
    assert!(text.contains("TOKEN") && !text.contains("ghp_"), "{text}");
    decl.mcp = McpDecl::Http {
        url: "https://x/mcp".into(),
        headers: [("Authorization".to_owned(), from("GITHUB_TOKEN"))].into(),
    };
    let text = format!("{:?}", ToolSpec::from_decl(&decl, Path::new("/p"), &node));
    assert!(text.contains("Authorization") && !text.contains("ghp_"), "{text}");
}
