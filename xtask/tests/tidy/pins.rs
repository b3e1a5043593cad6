//! Versions from other registries: pinned, the same everywhere, and from the public registries only.

use crate::repository::{files, text};
use serde_json::Value;

/// The packages of a requirements file.
fn requirements(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or(line).trim());
    lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

fn json(file: &str) -> Value {
    serde_json::from_str(&text(file).unwrap()).unwrap()
}

#[test]
fn every_python_requirement_is_pinned_and_stands_among_those_of_the_tests() {
    let all = requirements(&text("xtask/requirements.txt").unwrap());
    let constraints = requirements(&text("xtask/constraints.txt").unwrap());
    assert!(all.iter().all(|line| constraints.contains(line)), "constraints.txt is older than requirements.txt");
    for file in files().into_iter().filter(|file| file.starts_with("examples/") && file.ends_with("/requirements.txt"))
    {
        for line in requirements(&text(&file).unwrap()) {
            assert!(line.contains("==") && all.contains(&line), "{file}: {line} is not in xtask/requirements.txt");
        }
    }
}

#[test]
fn every_node_dependency_is_pinned_and_the_same_everywhere() {
    let all = json("xtask/node/package.json")["dependencies"].clone();
    for file in files().into_iter().filter(|file| file.starts_with("examples/") && file.ends_with("/package.json")) {
        for (name, version) in json(&file)["dependencies"].as_object().unwrap() {
            assert_eq!(all[name], *version, "{file}: {name} differs from xtask/node/package.json");
        }
    }
    let exact = |version: &str| version.chars().all(|c| c.is_ascii_alphanumeric() || ".-".contains(c));
    let peers = json("xtask/peers/package.json");
    for all in [&all, &peers["dependencies"], &peers["optionalDependencies"]] {
        assert!(all.as_object().unwrap().values().all(|version| exact(version.as_str().unwrap())), "{all}");
    }
}

#[test]
fn lock_files_name_only_the_public_registry_and_a_digest_for_each_package() {
    let locks: Vec<_> = files().into_iter().filter(|file| file.ends_with("package-lock.json")).collect();
    assert!(locks.len() >= 2, "{locks:?}");
    for file in locks {
        for (name, package) in json(&file)["packages"].as_object().unwrap().iter().filter(|(name, _)| !name.is_empty())
        {
            let resolved = package["resolved"].as_str().unwrap_or("https://registry.npmjs.org/");
            assert!(resolved.starts_with("https://registry.npmjs.org/"), "{file}: {name} is from {resolved}");
            assert!(package["integrity"].is_string(), "{file}: {name} has no digest");
        }
    }
    let lock = text("Cargo.lock").unwrap();
    let mut sources = lock.lines().filter_map(|line| line.strip_prefix("source = "));
    assert!(sources.all(|source| source == r#""registry+https://github.com/rust-lang/crates.io-index""#));
}
