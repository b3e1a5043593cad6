//! `install` and `uninstall` over the files of a user.

use crate::support::World;
use serde_json::{Value, json};

#[test]
fn entries_of_ours_that_stood_there_before_an_edit_are_gone_after_uninstall() {
    let world = World::new();
    for (harness, folder) in [("claude-code", ".claude"), ("gemini-cli", ".gemini")] {
        std::fs::create_dir_all(world.path("home").join(folder)).unwrap();
        let file = format!("home/{folder}/settings.json");
        let read = || std::fs::read_to_string(world.path(&file)).unwrap();
        world.write(&file, "{\n  \"theirs\": 1\n}\n");
        // Its probe finds no node: that is another matter.
        world.call(&["install", harness, "--db", "a.db"]);
        let first = read();
        assert!(first.contains("a.db"), "{harness}: {first}");
        world.write(&file, first.replace("\"theirs\": 1", "\"theirs\": 2"));
        world.call(&["install", harness, "--db", "b.db"]);
        let second = read();
        assert!(second.contains("b.db") && !second.contains("a.db"), "{harness}: {second}");
        world.call(&["uninstall", harness]).code(0);
        let left: Value = serde_json::from_str(&read()).unwrap();
        assert_eq!(left, json!({"theirs": 2}), "{harness}");
    }
}
