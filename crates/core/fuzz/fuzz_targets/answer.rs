//! Answers of hooks.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| hookwright_core_fuzz::answer(data));

#[cfg(not(fuzzing))]
fn main() -> std::process::ExitCode {
    hookwright_core_fuzz::driver::run("answer", hookwright_core_fuzz::answer, hookwright_core_fuzz::seeds::ANSWERS)
}
