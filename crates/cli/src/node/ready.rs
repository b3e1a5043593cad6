//! Where the node of a store is, and how it is started by whoever needs it.

use crate::exit::{CliError, CliResult};
use crate::settings::Settings;
use hookwright_node::{Place, Sockets, Start};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where the node of this command's store is found.
pub(crate) fn place(settings: &Settings) -> CliResult<Place> {
    Ok(Place::of(&settings.db()?))
}

/// Where the node may listen.
pub(crate) fn sockets(settings: &Settings) -> Sockets {
    let folder = |name: &str| settings.env.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
    Sockets {
        named: settings.config.socket.as_ref().map(|socket| settings.config_folder().join(socket)),
        runtime_dir: folder("XDG_RUNTIME_DIR"),
        temporary: folder("TMPDIR"),
    }
}

/// Makes the store's folder: the locks stand there before the store does.
pub(crate) fn prepare(store: &Path) -> CliResult<()> {
    let Some(folder) = store.parent().filter(|folder| !folder.exists()) else { return Ok(()) };
    if folder.file_name().is_some_and(|name| name == ".hookwright") {
        return crate::store::prepare_folder(folder);
    }
    std::fs::create_dir_all(folder)
        .map_err(|e| CliError::failed(format!("the folder {} can't be made: {e}", crate::settings::shown(folder))))
}

/// How a node is started that works with what this command works with: the same configuration, tenant, store and plugins.
pub(crate) fn start(settings: &Settings, plugins: &[PathBuf], idle: Option<u64>) -> CliResult<Start> {
    let failed = |e: std::io::Error| CliError::failed(format!("the node can't be started: {e}"));
    prepare(&settings.db()?)?;
    let mut args: Vec<OsString> = vec!["serve".into(), "--detached".into()];
    let global = &settings.global;
    for (flag, value) in [("--config", &global.config), ("--db", &global.db)] {
        if let Some(path) = value {
            args.extend([flag.into(), settings.cwd.join(path).into_os_string()]);
        }
    }
    for (flag, value) in [("--tenant", &global.tenant), ("--log", &global.log)] {
        if let Some(value) = value {
            args.extend([flag.into(), value.into()]);
        }
    }
    for plugin in plugins {
        args.extend(["--plugin".into(), settings.cwd.join(plugin).into_os_string()]);
    }
    if let Some(seconds) = idle {
        args.extend(["--idle".into(), seconds.to_string().into()]);
    }
    Ok(Start { program: std::env::current_exe().map_err(failed)?, args, folder: settings.cwd.clone() })
}
