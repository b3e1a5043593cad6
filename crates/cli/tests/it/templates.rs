//! `new plugin`: what it makes works at once.

use crate::support::{Running, World};

#[test]
fn a_new_plugin_passes_check_at_once() {
    let world = World::new();
    world.call(&["new", "plugin", "guard"]).code(0);
    world.call(&["check", "guard"]).code(0);
    let report = world
        .call(&["ask", "--plugin", "guard", "--event", "guard/events/push_to_main.json", "--output", "json"])
        .code(0)
        .json();
    assert!(report["answers"][0]["failed"].is_null(), "{report}");
    world.call(&["new", "plugin", "guard"]).code(2).tells(&["guard"]);
    for bad in ["../x", "a b", "", "claude-code"] {
        world.call(&["new", "plugin", bad]).code(2);
    }
}

#[test]
fn a_new_plugin_in_typescript_passes_check_at_once_under_any_of_its_names() {
    let world = World::new();
    for lang in ["typescript", "ts", "js", "javascript"] {
        world.call(&["new", "plugin", lang, "--lang", lang]).code(0);
        assert!(world.path(&format!("{lang}/server.mjs")).exists());
    }
    world.call(&["check", "ts"]).code(0);
    world.call(&["new", "plugin", "guard", "--lang", "py"]).code(0);
    world.call(&["new", "plugin", "other", "--lang", "cobol"]).code(2).tells(&["python", "typescript", "rust"]);
}

/// Cargo's and rustup's folders, as the user has them, in a world's home.
#[allow(clippy::disallowed_methods, reason = "tests find the tester's toolchain")]
fn lend_toolchain(world: &World) {
    for (name, variable) in [(".cargo", "CARGO_HOME"), (".rustup", "RUSTUP_HOME")] {
        let home = std::env::var_os("HOME").map(|home| std::path::PathBuf::from(home).join(name));
        if let Some(folder) = std::env::var_os(variable).map(Into::into).or(home).filter(|f| f.exists()) {
            std::os::unix::fs::symlink(folder, world.path("home").join(name)).unwrap();
        }
    }
}

#[test]
fn a_new_plugin_in_rust_builds_and_passes_check_at_once() {
    let world = World::new();
    lend_toolchain(&world);
    world.call(&["new", "plugin", "guard", "--lang", "rs"]).code(0);
    // Nothing is fetched, and what was built once is kept for the next time.
    let target = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("rust-template");
    world.write("guard/.cargo/config.toml", format!("[net]\noffline = true\n[build]\ntarget-dir = {target:?}\n"));
    world.call(&["check", "guard"]).code(0);
    let args = ["ask", "--plugin", "guard", "--event", "guard/events/push_to_main.json", "--output", "json"];
    let report = world.call(&args).code(0).json();
    assert_eq!(report["verdict"], "escalate", "{report}");
}

#[test]
fn a_new_plugin_in_rust_names_the_toolchains_folders_where_they_are_not_at_home() {
    let world = World::new();
    let mut new = world.hookwright(&["new", "plugin", "far", "--lang", "rust"]);
    new.env("RUSTUP_HOME", "/opt/rustup");
    Running::start(new).finish().code(0);
    let manifest = std::fs::read_to_string(world.path("far/plugin.yaml")).unwrap();
    assert!(manifest.contains("\n    env: { RUSTUP_HOME: { from: RUSTUP_HOME } }"), "{manifest}");
    world.call(&["new", "plugin", "near", "--lang", "rust"]).code(0);
    let manifest = std::fs::read_to_string(world.path("near/plugin.yaml")).unwrap();
    assert!(manifest.contains("\n    # env: {"), "{manifest}");
}

#[test]
fn an_exception_of_a_python_hook_shows_its_traceback_to_its_author() {
    let world = World::new();
    world.call(&["new", "plugin", "guard"]).code(0);
    let source = std::fs::read_to_string(world.path("guard/server.py")).unwrap();
    world.write("guard/server.py", source.replace("    if event[", "    raise ValueError('a slip')\n    if event["));
    let args =
        ["ask", "--plugin", "guard", "--event", "guard/events/push_to_main.json", "--log", "hookwright::tool=info"];
    world.call(&args).code(0).tells(&["Traceback", "server.py", "ValueError: a slip"]);
    // One that can't start says why once.
    world.write("guard/server.py", "raise ValueError('a slip')\n");
    let told = world.call(&["check", "guard"]).code(2);
    assert_eq!(told.err.matches("ValueError: a slip").count(), 1, "{told}");
}
