use super::*;

fn file(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas").join(name)
}

#[test]
fn the_committed_schemas_are_the_generated_ones() {
    for (name, schema) in all() {
        let committed = std::fs::read_to_string(file(name)).unwrap_or_default();
        assert!(
            committed.replace("\r\n", "\n") == text(&schema),
            "schemas/{name} is not what the code generates: run `cargo run -p xtask -- schemas`"
        );
    }
}

#[test]
fn every_schema_is_itself_valid() {
    for (name, schema) in all() {
        assert!(jsonschema::meta::validate(&schema).is_ok(), "{name}");
        assert!(schema["$id"].as_str().is_some_and(|id| id.ends_with(name)), "{name}");
    }
}
