use super::*;

const NOW: u64 = 1_800_000_000_000;

fn held(process: Option<Process>, silence_ms: i64) -> Held {
    Held {
        pid: process.as_ref().map_or(1, |p| p.pid),
        process,
        since_ms: NOW - 60_000,
        beat_ms: NOW.saturating_add_signed(-silence_ms),
    }
}

fn me() -> Holder {
    Holder::this("test", NOW)
}

#[test]
fn each_store_has_a_key_of_its_own() {
    assert_ne!(me().key, me().key);
}

#[test]
fn a_process_that_cannot_be_seen_holds_its_lease_until_its_silence_is_too_long() {
    let elsewhere = Process { pid: 1, start: 1, boot: "another boot".into(), pidns: "pid:[1]".into() };
    for process in [None, Some(elsewhere)] {
        assert!(me().is_held(&held(process.clone(), 0), NOW));
        assert!(me().is_held(&held(process.clone(), 14_999), NOW));
        assert!(!me().is_held(&held(process.clone(), 15_000), NOW));
        // A clock that went back must not hold a lease for ever either.
        assert!(!me().is_held(&held(process.clone(), -15_000), NOW));
        let text = me().describe(&held(process, 4_200), NOW);
        assert_eq!(
            text,
            "process 1 (running since 2027-01-15T07:59:00Z; it cannot be seen from here and was heard 4 s ago: free after 15 s of silence)"
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_dead_process_holds_nothing_and_a_living_one_is_given_time() {
    let me = me();
    let mine = me.process.clone().unwrap();

    let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let (_, _, start) =
        linux::parse_stat(&std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap()).unwrap();
    let process = Process { pid: child.id(), start, ..mine.clone() };
    assert!(me.is_held(&held(Some(process.clone()), 0), NOW));
    assert!(me.is_held(&held(Some(process.clone()), 119_999), NOW));
    assert!(!me.is_held(&held(Some(process.clone()), 120_000), NOW));
    let text = me.describe(&held(Some(process.clone()), 20_000), NOW);
    assert_eq!(
        text,
        format!("process {} (running since 2027-01-15T07:59:00Z; silent for 20 s: stopped or stuck?)", child.id())
    );

    // The same number, started at another time: another process.
    assert!(!me.is_held(&held(Some(Process { start: start + 1, ..process.clone() }), 0), NOW));

    // Killed, and not yet reaped: a zombie.
    child.kill().unwrap();
    while me.is_held(&held(Some(process.clone()), 0), NOW) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.wait().unwrap();
    assert!(!me.is_held(&held(Some(process), 0), NOW));

    assert!(me.is_held(&held(Some(mine.clone()), 0), NOW));
    assert_eq!(
        me.describe(&held(Some(mine.clone()), 0), NOW),
        format!("this process, {} (running since 2027-01-15T07:59:00Z)", mine.pid)
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_may_have_any_name() {
    let stat = "42 (a) S 1 (b) c) Z 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654 0 0";
    assert_eq!(linux::parse_stat(stat), Some((42, 'Z', 987_654)));
    assert_eq!(linux::parse_stat(""), None);
    assert_eq!(linux::parse_stat("42 (x) S 1"), None);
}
