//! What the tests look at: the tracked files, and the workspace as cargo sees it.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Files that git tracks or would track, and that are there; relative, with `/`.
pub(crate) fn files() -> Vec<String> {
    // In a source archive there is no git and nothing to tidy; a clone has one.
    let listed = output("git", &["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    listed.split('\0').filter(|name| !name.is_empty() && root().join(name).is_file()).map(str::to_owned).collect()
}

/// The text of a file, if it is text.
pub(crate) fn text(file: &str) -> Option<String> {
    String::from_utf8(std::fs::read(root().join(file)).unwrap()).ok()
}

/// The part of a file's name after its last dot.
pub(crate) fn extension(file: &str) -> &str {
    file.rsplit_once('.').map_or("", |(_, extension)| extension)
}

/// A crate of the workspace.
pub(crate) struct Member {
    pub(crate) name: String,
    /// Its folder, relative, with `/`.
    pub(crate) folder: String,
    /// What it needs to be built, without what its tests and build scripts need.
    pub(crate) needs: Vec<String>,
}

pub(crate) fn members() -> Vec<Member> {
    let metadata: Value =
        serde_json::from_str(&output("cargo", &["metadata", "--no-deps", "--offline", "--format-version", "1"]))
            .unwrap();
    let root = metadata["workspace_root"].as_str().unwrap();
    let member = |package: &Value| {
        let folder =
            Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap().strip_prefix(root).unwrap();
        let dependencies = package["dependencies"].as_array().unwrap().iter().filter(|d| d["kind"].is_null());
        Member {
            name: package["name"].as_str().unwrap().to_owned(),
            folder: folder.to_str().unwrap().replace('\\', "/"),
            needs: dependencies.map(|d| d["name"].as_str().unwrap().to_owned()).collect(),
        }
    };
    metadata["packages"].as_array().unwrap().iter().map(member).collect()
}
