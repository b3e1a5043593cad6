//! The machine: what the figures are to be read with.

use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// What it is.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    cpu: String,
    cores: usize,
    system: String,
    /// The load average of the last minute, where the system tells.
    load: Option<String>,
}

impl Machine {
    pub(crate) fn this() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (cpus, release) = (read("/proc/cpuinfo"), read("/proc/sys/kernel/osrelease"));
        let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        Self {
            cpu: model.map_or(std::env::consts::ARCH, |(_, model)| model.trim()).to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            system: format!("{} {}", std::env::consts::OS, release.trim()).trim_end().to_owned(),
            load: read("/proc/loadavg").split_once(' ').map(|(load, _)| load.to_owned()),
        }
    }

    /// A line for people.
    pub(crate) fn text(&self) -> String {
        let load = self.load.as_ref().map_or(String::new(), |load| format!(", load average {load}"));
        format!("{}, {} cores, {}{load}", self.cpu, self.cores, self.system)
    }
}

/// Times of appends of 4 KiB to a file, each with its `fdatasync`.
pub(crate) struct Disk(File);

impl Disk {
    pub(crate) fn new(folder: &Path) -> io::Result<Self> {
        File::create(folder.join("disk")).map(Self)
    }

    pub(crate) fn appends(&mut self, count: usize) -> io::Result<Vec<Duration>> {
        let append = |_| {
            let since = Instant::now();
            self.0.write_all(&[7; 4096])?;
            self.0.sync_data()?;
            Ok(since.elapsed())
        };
        (0..count).map(append).collect()
    }
}
