//! `hookwright new plugin`: a plugin that passes `check` at once (docs/decisions/0051).

use crate::args::{Language, NewCommand};
use crate::exit::{self, CliError, CliResult};
use crate::settings::{Settings, shown};
use crate::terminal::note;
use hookwright_core::manifest::reserved::is_reserved;
use hookwright_core::name::is_tool_id;
use hookwright_core::text::escape;
use std::path::Path;

/// A file of a template: its path (without `.template`) and its text.
type File = (&'static str, &'static str);

macro_rules! files {
    ($folder:literal: $($path:literal => $file:literal),+ $(,)?) => {
        &[$(($path, include_str!(concat!("../../templates/", $folder, "/", $file)))),+]
    };
}

const PYTHON: &[File] = files!("python":
    "plugin.yaml" => "plugin.yaml",
    "server.py" => "server.py",
    "mcp_stdio.py" => "mcp_stdio.py",
    "README.md" => "README.md",
    ".gitignore" => "gitignore.template",
    "events/push_to_main.json" => "events/push_to_main.json",
);

const TYPESCRIPT: &[File] = files!("typescript":
    "plugin.yaml" => "plugin.yaml",
    "server.mjs" => "server.mjs",
    "mcp-stdio.mjs" => "mcp-stdio.mjs",
    "types.d.ts" => "types.d.ts",
    "package.json" => "package.json",
    "tsconfig.json" => "tsconfig.json",
    "README.md" => "README.md",
    ".gitignore" => "gitignore.template",
    "events/push_to_main.json" => "events/push_to_main.json",
);

const RUST: &[File] = files!("rust":
    "plugin.yaml" => "plugin.yaml",
    "Cargo.toml" => "Cargo.toml.template",
    "src/main.rs" => "src/main.rs",
    "src/mcp_stdio.rs" => "src/mcp_stdio.rs",
    "README.md" => "README.md",
    ".gitignore" => "gitignore.template",
    "events/push_to_main.json" => "events/push_to_main.json",
);

pub(crate) fn run(settings: &Settings, command: NewCommand) -> CliResult {
    let NewCommand::Plugin { name, lang, dir } = command;
    if !is_tool_id(&name) {
        return Err(CliError::usage(format!("{:?} can't be a plugin's id", escape(&name)))
            .hint("use 1 to 64 letters, digits, - and _, beginning with a letter or digit"));
    }
    if is_reserved(&name) {
        return Err(CliError::usage(format!("{name} is the name of a harness or of something built in"))
            .hint("choose another name"));
    }
    let folder = settings.cwd.join(dir).join(&name);
    if folder.exists() {
        return Err(
            CliError::usage(format!("{} is there already", shown(&folder))).hint("choose another name, or remove it")
        );
    }
    let (files, first_start) = match lang {
        Language::Python => (PYTHON, ""),
        Language::Typescript => (TYPESCRIPT, ""),
        Language::Rust => (RUST, " (the first start builds it)"),
    };
    for (path, text) in files {
        let text = text.replace("{{name}}", &name).replace(TOOLCHAIN, &toolchain(settings));
        write(&folder.join(path), &text)?;
    }
    let at = shown(&folder);
    note(&format!("made {at}: {} files", files.len()));
    note(&format!("  hookwright check {at}{first_start}"));
    note(&format!("  hookwright ask --plugin {at} --event {at}/events/push_to_main.json"));
    Ok(exit::OK)
}

/// The line of the Rust template that names the toolchain's folders.
const TOOLCHAIN: &str = "    # env: { RUSTUP_HOME: { from: RUSTUP_HOME }, CARGO_HOME: { from: CARGO_HOME } } # where Rust is not in your home folder\n";

/// That line as this user needs it: servers get HOME, and no variable that says that Rust is somewhere else.
fn toolchain(settings: &Settings) -> String {
    let set = ["RUSTUP_HOME", "CARGO_HOME"].into_iter().filter(|name| settings.env.get(name).is_some());
    let named: Vec<String> = set.map(|name| format!("{name}: {{ from: {name} }}")).collect();
    if named.is_empty() {
        return TOOLCHAIN.to_owned();
    }
    format!("    env: {{ {} }} # where Rust is, for it is not in your home folder\n", named.join(", "))
}

fn write(file: &Path, text: &str) -> CliResult<()> {
    let failed = |e: std::io::Error| CliError::failed(format!("{} can't be written: {e}", shown(file)));
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    std::fs::write(file, text).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_templates_is_written() {
        for (folder, files) in [("python", PYTHON), ("typescript", TYPESCRIPT), ("rust", RUST)] {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("templates").join(folder);
            assert_eq!(count(&root), files.len(), "{folder}");
        }
    }

    fn count(folder: &Path) -> usize {
        std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| if path.is_dir() { count(&path) } else { 1 })
            .sum()
    }
}
