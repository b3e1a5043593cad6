//! Random mutation of seeds on stable Rust, without coverage guidance: for a brief run in CI, and to repeat a finding.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// An input that takes longer is a finding. Generous: the machine may be busy and the build unoptimized.
const SLOW: Duration = Duration::from_secs(20);

/// Pieces that mean something to the parsers.
const WORDS: &[&str] = &[
    "tools:", "hooks:", "agents:", "- ", ": ", "\n", "\n  ", "\t", "{", "}", "[", "]", ",", "&a ", "*a", "<<: ", "!!str ", "|", ">", "'", "\"", "#", "---", "...", "? ", "~",
    "timeout: ", "31s", "0s", "2s", "match: ", "from: ", "sk-abcdefgh", "\u{202e}", "\u{feff}", "\\u0000", "\u{0}", "decision", "allow", "deny", "modify", "escalate", "reason",
    "arguments", "result", "null", "true", "1e999", "-1", ".inf", "\\ud800", "99999999999999999999",
];

/// SplitMix64: enough to spread, and the same on every machine for a seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Runs a target by the arguments of the command line: `--seconds N` (default 10), `--runs N`, `--seed N`, or files to try once each.
pub fn run(name: &str, target: fn(&[u8]), seeds: &[&[u8]]) -> ExitCode {
    let (mut seconds, mut runs, mut seed, mut files) = (10u64, u64::MAX, 1u64, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let slot = match argument.as_str() {
            "--seconds" => &mut seconds,
            "--runs" => &mut runs,
            "--seed" => &mut seed,
            _ => {
                files.push(argument);
                continue;
            }
        };
        match arguments.next().and_then(|value| value.parse().ok()) {
            Some(value) => *slot = value,
            None => {
                eprintln!("{argument} needs a whole number");
                return ExitCode::from(2);
            }
        }
    }
    for file in &files {
        match std::fs::read(file) {
            Ok(data) if holds(name, target, &data) => {}
            Ok(_) => return ExitCode::FAILURE,
            Err(error) => {
                eprintln!("failed to read {file}: {error}");
                return ExitCode::from(2);
            }
        }
    }
    if !files.is_empty() {
        return ExitCode::SUCCESS;
    }
    let begun = Instant::now();
    let mut dice = Dice(seed);
    let mut tried = 0;
    for data in seeds {
        if !holds(name, target, data) {
            return ExitCode::FAILURE;
        }
    }
    while tried < runs && begun.elapsed() < Duration::from_secs(seconds) {
        let data = mutated(&mut dice, seeds);
        if !holds(name, target, &data) {
            return ExitCode::FAILURE;
        }
        tried += 1;
    }
    println!("{name}: {tried} inputs in {:.1} s, seed {seed}: all rules held", begun.elapsed().as_secs_f64());
    ExitCode::SUCCESS
}

/// Whether an input keeps the rules in time; one that does not is written down.
fn holds(name: &str, target: fn(&[u8]), data: &[u8]) -> bool {
    let begun = Instant::now();
    let kept = catch_unwind(AssertUnwindSafe(|| target(data))).is_ok();
    if kept && begun.elapsed() < SLOW {
        return true;
    }
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("artifacts").join(name);
    let digest = &hookwright_core::json::sha256_hex(data)[..16];
    let file = folder.join(format!("{}-{digest}.bin", if kept { "slow" } else { "crash" }));
    match std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&file, data)) {
        Ok(()) => eprintln!("{name}: a rule was broken; the input is {}", file.display()),
        Err(error) => eprintln!("{name}: a rule was broken by {:?} (not written: {error})", String::from_utf8_lossy(data)),
    }
    false
}

fn mutated(dice: &mut Dice, seeds: &[&[u8]]) -> Vec<u8> {
    let mut data = seeds[dice.below(seeds.len())].to_vec();
    for _ in 0..=dice.below(6) {
        let at = dice.below(data.len() + 1);
        let to = (at + dice.below(24)).min(data.len());
        match dice.below(8) {
            0 => drop(data.drain(at..to)),
            1 => {
                let piece = data[at..to].to_vec();
                data.splice(at..at, piece);
            }
            2 if at < data.len() => data[at] = (dice.next() & 0xff) as u8,
            3 if at < data.len() => data[at] ^= 1 << dice.below(8),
            4 => {
                let other = seeds[dice.below(seeds.len())];
                let from = dice.below(other.len());
                let until = (from + dice.below(64)).min(other.len());
                data.splice(at..to, other[from..until].iter().copied());
            }
            5 => {
                // Many of the same: depth and length.
                let word = WORDS[dice.below(WORDS.len())].repeat(1 + dice.below(200));
                data.splice(at..at, word.into_bytes());
            }
            _ => {
                let word = WORDS[dice.below(WORDS.len())];
                data.splice(at..to, word.bytes());
            }
        }
    }
    data
}
