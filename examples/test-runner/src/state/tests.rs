use super::*;

fn run(end: End) -> Run {
    Run { end, output: "2 passed, 1 failed".to_owned() }
}

#[test]
fn only_a_pass_is_silent() {
    assert_eq!(objection(Some(&run(End::Exited(0))), true), None);
    for (end, says) in [
        (End::Exited(1), "failed with exit code 1"),
        (End::Killed, "ended by a signal"),
        (End::TimedOut(600), "did not end within 600 s"),
        (End::NotStarted("no such program".to_owned()), "could not be started: no such program"),
    ] {
        let text = objection(Some(&run(end)), false).unwrap();
        assert!(text.contains(says) && text.contains("2 passed, 1 failed") && text.contains("`run_tests`"), "{text}");
    }
}

#[test]
fn before_the_first_run_it_objects_only_where_one_is_required() {
    assert_eq!(objection(None, false), None);
    assert!(objection(None, true).unwrap().contains("not run yet"));
}

#[test]
fn an_output_keeps_its_end_from_a_lines_beginning() {
    assert_eq!(tail(b"a\nb\n\n"), "a\nb");
    let long = format!("{}\nsummary", "x".repeat(10_000));
    assert_eq!(tail(long.as_bytes()), "summary");
    let one_line = tail("ä".repeat(10_000).as_bytes());
    assert!(one_line.len() <= OUTPUT_BYTES && one_line.ends_with('ä'));
    assert!(tail(&[0xff; 10_000]).len() <= OUTPUT_BYTES);
}
