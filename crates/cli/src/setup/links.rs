//! Plugins that lead into another tenant's by a link.
//!
//! Whoever may write to a tenant's folders must not get another tenant's plugin, with its files, for their own. Two tenants share a plugin
//! where the configuration itself names the same folder for both.

use super::MANIFEST_NAME;
use crate::exit::{CliError, CliResult};
use crate::settings::shown;
use hookwright_core::config::TenantConfig;
use std::path::{Component, Path, PathBuf};

/// A path as it is written, without links being followed.
fn written(base: &Path, folder: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for part in base.join(folder).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(path.pop()),
            other => path.push(other),
        }
    }
    path
}

/// Where a path leads; itself where there is nothing.
fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Fails where a plugin of this tenant, or its manifest, is reached by a link and stands in a plugin of another one.
pub(super) fn check(base: &Path, tenants: &[TenantConfig], of: &TenantConfig) -> CliResult<()> {
    let base = real(base);
    let others: Vec<(&str, PathBuf, PathBuf)> = tenants
        .iter()
        .filter(|tenant| tenant.id != of.id)
        .flat_map(|tenant| tenant.plugins.iter().map(move |folder| (tenant, folder)))
        .map(|(tenant, folder)| (tenant.id.as_str(), written(&base, folder), real(&base.join(folder))))
        .collect();
    for folder in &of.plugins {
        let (as_written, leads) = (written(&base, folder), real(&base.join(folder)));
        let manifest = real(&leads.join(MANIFEST_NAME));
        for (path, is_link) in [(&leads, leads != as_written), (&manifest, manifest != leads.join(MANIFEST_NAME))] {
            let theirs = |(_, other_written, other): &&(&str, PathBuf, PathBuf)| {
                *other_written != as_written && (path.starts_with(other) || other.starts_with(path))
            };
            if let Some((other, _, _)) = others.iter().find(theirs).filter(|_| is_link) {
                return Err(CliError::usage(format!(
                    "the plugin {} of the tenant {} leads by a link into one of the tenant {other}: {}",
                    shown(&base.join(folder)),
                    of.id,
                    shown(path)
                ))
                .hint("if both may use it, name the folder itself under `plugins:` of both")
                .kind("Manifest"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn tenant(id: &str, plugins: &[&str]) -> TenantConfig {
        let plugins = plugins.iter().map(|plugin| (*plugin).to_owned()).collect();
        TenantConfig { id: id.to_owned(), plugins, ..TenantConfig::default() }
    }

    #[test]
    fn a_link_into_another_tenants_plugin_is_refused_and_a_folder_that_both_name_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path();
        for made in ["a/own", "a/deep", "b/policy", "b/policy/inner", "b/file", "shared", "elsewhere"] {
            std::fs::create_dir_all(base.join(made)).unwrap();
            std::fs::write(base.join(made).join(MANIFEST_NAME), "").unwrap();
        }
        symlink(base.join("b/policy"), base.join("a/link")).unwrap();
        symlink(base.join("b/policy/inner"), base.join("a/into")).unwrap();
        symlink(base.join("b"), base.join("a/above")).unwrap();
        symlink(base.join("elsewhere"), base.join("a/out")).unwrap();
        symlink(base.join("b"), base.join("c")).unwrap();
        std::fs::remove_file(base.join("a/deep").join(MANIFEST_NAME)).unwrap();
        symlink(base.join("b/policy").join(MANIFEST_NAME), base.join("a/deep").join(MANIFEST_NAME)).unwrap();
        let b = tenant("b", &["b/policy", "shared", "./a/../b/file"]);
        for (plugin, good) in [
            ("a/own", true),
            ("shared", true),
            ("./shared", true),
            ("b/policy", true),
            ("a/out", true),
            ("a/link", false),
            ("a/into", false),
            ("a/above", false),
            ("c/policy", false),
            ("a/deep", false),
        ] {
            let a = tenant("a", &[plugin]);
            let checked = check(base, &[a.clone(), b.clone()], &a);
            assert_eq!(checked.is_ok(), good, "{plugin}");
        }
    }
}
