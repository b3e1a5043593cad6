//! The committed JSON Schema of scripts is the generated one.

use std::path::Path;

#[test]
fn the_committed_script_schema_is_the_generated_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../schemas/script.schema.json");
    let generated = serde_json::to_string_pretty(&hookwright_model::script::schema()).unwrap() + "\n";
    #[allow(clippy::disallowed_methods)] // a test's own switch
    if std::env::var_os("HOOKWRIGHT_UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &generated).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    assert!(
        committed == generated,
        "schemas/script.schema.json is out of date: run this test with HOOKWRIGHT_UPDATE=1"
    );
}
