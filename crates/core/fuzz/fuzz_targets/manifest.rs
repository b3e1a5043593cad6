//! Manifests and node configurations.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| hookwright_core_fuzz::manifest(data));

#[cfg(not(fuzzing))]
fn main() -> std::process::ExitCode {
    hookwright_core_fuzz::driver::run("manifest", hookwright_core_fuzz::manifest, hookwright_core_fuzz::seeds::MANIFESTS)
}
