use super::*;
use crate::story::tests::tale::{Tale, hook, spec};
use hookwright_core::event::Moment;
use hookwright_core::history::Head;
use serde_json::json;
use std::io;
use std::sync::Condvar;

/// A writer that can be stopped.
#[derive(Clone, Default)]
struct Screen(Arc<Stoppable>);

/// What was written and whether it is stopped; and what is told of a change.
type Stoppable = (Mutex<(Vec<u8>, bool)>, Condvar);

impl Screen {
    fn stop(&self, stopped: bool) {
        self.0.0.lock().unwrap().1 = stopped;
        self.0.1.notify_all();
    }
    fn text(&self) -> String {
        String::from_utf8(self.0.0.lock().unwrap().0.clone()).unwrap()
    }
}

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut inner = self.0.1.wait_while(self.0.0.lock().unwrap(), |inner| inner.1).unwrap();
        inner.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn printer() -> (Printer, Screen) {
    let screen = Screen::default();
    (
        Printer::new(Look::PLAIN, Approvals::Prompted, crate::next::Next::default(), Box::new(screen.clone())).unwrap(),
        screen,
    )
}

fn waiting() -> Tale {
    let mut tale = Tale::new(spec(vec![hook("policy.check", Moment::PreToolCall)]));
    tale.turn("", &[("git.push", json!({})), ("git.log", json!({}))]);
    tale.escalate("t1.c0.pre.h0", "a push");
    tale
}

fn record(printer: &Printer, tale: &Tale, from: usize) {
    tale.records[from..].iter().for_each(|r| printer.event(Event::Recorded(r)));
}

#[test]
fn everything_is_written_by_the_end() {
    let (printer, screen) = printer();
    printer.event(Event::Text("Hello"));
    printer.event(Event::Notice("retrying in 2 s"));
    printer.finish();
    let text = screen.text();
    assert!(text.contains("│ Hello\n") && text.ends_with("note: retrying in 2 s\n"), "{text}");
    printer.event(Event::Notice("after the end"));
    assert_eq!(screen.text(), text);
}

#[test]
fn a_stopped_reader_does_not_stop_the_job_and_the_gap_is_said() {
    let (printer, screen) = printer();
    screen.stop(true);
    let piece = "word ".repeat(2_000);
    for _ in 0..2_000 {
        printer.event(Event::Text(&piece));
    }
    assert!(printer.queued.load(Ordering::Relaxed) <= QUEUE_BYTES);
    screen.stop(false);
    printer.finish();
    let text = screen.text();
    assert!(text.len() < QUEUE_BYTES * 2);
    assert!(text.contains("of the story are left out here"));
}

#[test]
fn a_broken_pipe_ends_the_story_not_the_job() {
    struct Broken;
    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let printer =
        Printer::new(Look::PLAIN, Approvals::Prompted, crate::next::Next::default(), Box::new(Broken)).unwrap();
    for _ in 0..100 {
        printer.event(Event::Text("text\n"));
    }
    printer.finish();
}

#[test]
fn the_story_waits_behind_a_prompt() {
    let (printer, screen) = printer();
    let mut tale = waiting();
    record(&printer, &tale, 0);
    let from = tale.records.len();
    let guard = printer.prompt(&tale.approval().job, &tale.approval().id);
    guard.show("Approve? ");
    tale.allow("t1.c1.pre.h0");
    record(&printer, &tale, from);
    assert!(!guard.is_over());
    drop(guard);
    printer.finish();
    let text = screen.text();
    let (question, allowed) = (text.find("Approve? ").unwrap(), text.rfind("allow").unwrap());
    assert!(question < allowed, "{text}");
}

#[test]
fn a_decision_made_elsewhere_ends_the_prompt_and_the_story_goes_on() {
    let (printer, screen) = printer();
    let mut tale = waiting();
    record(&printer, &tale, 0);
    let from = tale.records.len();
    let guard = printer.prompt(&tale.approval().job, &tale.approval().id);
    guard.show("Approve? ");
    tale.allow("t1.c1.pre.h0");
    tale.decide("t1.c0.pre.approval", true, "grace", None);
    record(&printer, &tale, from);
    assert!(guard.is_over());
    guard.show("Approve? ");
    drop(guard);
    printer.finish();
    let text = screen.text();
    assert_eq!(text.matches("Approve? ").count(), 1, "{text}");
    assert!(text.contains("Approve? \n") && text.contains("approved by grace"), "{text}");
}

#[test]
fn a_childs_story_comes_in_whole_lines_behind_its_name_and_its_end_settles_no_other_jobs_question() {
    let (printer, screen) = printer();
    let child = |job: &str| {
        let mut spec = spec(vec![]);
        (spec.job, spec.parent_jobs) = (job.into(), vec!["job_root".into()]);
        Tale::new(spec)
    };
    let tales = [child("job_a"), child("job_b")];
    for tale in &tales {
        let Fact::Started { spec } = &tale.records[0].fact else { panic!() };
        printer.child(spec, &[]);
    }
    printer.event_of("job_a", Event::Text("Hello "));
    printer.event_of("job_b", Event::Text("Good"));
    printer.event_of("job_a", Event::Text("you.\n"));
    printer.event_of("job_b", Event::Text(" day.\n"));
    let guard = printer.prompt("job_a", "ap_1");
    let ended = Head::default().next(1, Fact::Cancelled { by: "ada".into() });
    printer.event_of("job_b", Event::Recorded(&ended));
    assert!(!guard.is_over(), "another child's end");
    printer.event_of("job_a", Event::Recorded(&ended));
    assert!(guard.is_over());
    drop(guard);
    printer.event_of("nobody", Event::Text("lost\n"));
    printer.finish();
    insta::assert_snapshot!(screen.text());
}

#[test]
fn the_end_of_the_storys_own_job_settles_a_childs_question() {
    let (printer, _) = printer();
    let guard = printer.prompt("job_child", "ap_1");
    let record = Head::default().next(1, Fact::Cancelled { by: "ada".into() });
    printer.event(Event::Recorded(&record));
    assert!(guard.is_over());
}
