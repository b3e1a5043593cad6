//! `hookwright trust`.

use crate::args::TrustArgs;
use crate::exit::{self, CliError, CliResult};
use crate::settings::{CONFIG_NAME, Settings, manifest_digests, read_config, real, shown};
use crate::terminal::note;
use crate::trust;

pub(crate) fn run(settings: &Settings, args: &TrustArgs) -> CliResult {
    let file = settings.cwd.join(args.file.as_deref().unwrap_or(CONFIG_NAME.as_ref()));
    if args.remove {
        let mut trusted = trust::read(&settings.env)?;
        if trusted.remove(&real(&file)).is_none() {
            return Err(CliError::usage(format!("{} is not trusted", shown(&file))));
        }
        trust::write(&settings.env, &trusted)?;
        note(&format!("{} is trusted no longer", shown(&file)));
        return Ok(exit::OK);
    }
    let parsed = read_config(&file, settings.terminal)?;
    let manifests = manifest_digests(&parsed.config, &file);
    let digest = trust::digest(&parsed.sha256, &manifests);
    let mut trusted = trust::read(&settings.env)?;
    trusted.insert(real(&file), digest.clone());
    trust::write(&settings.env, &trusted)?;
    note(&format!("trusted: {} as it is now ({})", shown(&file), &digest[..12]));
    for folder in manifests.keys() {
        note(&format!("  with the manifest of {}", shown(folder)));
    }
    note("a change of any of them asks again; what their programs do is not covered");
    Ok(exit::OK)
}
