use super::*;
use crate::exit::CliError;
use crate::setup;
use clap::Parser as _;

#[derive(clap::Parser)]
struct Flags {
    #[command(flatten)]
    global: Global,
}

#[test]
fn a_manifest_that_changes_after_it_was_judged_is_not_used_and_no_job_vouches_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    std::fs::create_dir(folder.path().join("p")).unwrap();
    write("hookwright.yaml", "tenants: [{ id: team, plugins: [p] }]\n");
    write("p/plugin.yaml", "tools: [{ id: git, mcp: [git-mcp] }]\n");
    let config = folder.path().join("hookwright.yaml");
    let flags = Flags::parse_from(["hookwright", "--config", config.to_str().unwrap()]);
    let read = || {
        let terminal = Terminal { color: false, interactive: false };
        Settings::read(&flags.global, Environment::default(), terminal).unwrap()
    };
    let mut settings = read();
    let digest = settings.config_digest();
    assert!(setup::load(&mut settings, &[]).is_ok());
    write("p/plugin.yaml", "tools: [{ id: git, mcp: [evil] }]\n");
    let refused: Option<CliError> = setup::load(&mut settings, &[]).err();
    assert!(refused.unwrap().message.ends_with("plugin.yaml was changed while it was read"));
    write("hookwright.yaml", "tenants: [{ id: other, plugins: [p] }]\n");
    assert_eq!(settings.config_digest(), digest, "a job's origin names what was used");
    let mut again = read();
    assert!(setup::load(&mut again, &[]).is_ok() && again.config_digest() != digest);
}
