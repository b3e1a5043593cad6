use super::*;
use crate::ask::Agent;

struct Nobody;

impl Wiring for Nobody {
    fn job(&self, _: &Ask, _: Value) -> Result<(NewRun, Deps), String> {
        Err("no jobs here".to_owned())
    }

    fn left(&self, _: &Ask) -> Option<(Deps, IsOf)> {
        None
    }
}

fn ask(session: &str, parent: Option<&str>) -> Ask {
    let agent = parent.map(|parent| Agent { id: session.to_owned(), kind: None, parent: Some(parent.to_owned()) });
    let what = What::Started { source: None };
    Ask { harness: Harness::OpenCode, session: session.to_owned(), turn: None, cwd: None, agent, what }
}

#[test]
fn a_conversation_is_forgotten_for_others_when_it_was_silent_and_nothing_of_it_is_under_way() {
    let seat = Seat::new();
    for (silence, kept) in
        [(Duration::ZERO, true), (FRESH.saturating_sub(Duration::from_millis(1)), true), (FRESH, false)]
    {
        assert_eq!(seat.is_kept(silence), kept, "{silence:?}");
    }
    let at_work = seat.current.try_lock().unwrap();
    assert!(seat.is_kept(GONE), "somebody is at work on it");
    drop(at_work);
    {
        let _event = Event::of(&seat);
        let _another = Event::of(&seat);
        assert_eq!(seat.silence(), Duration::ZERO, "an event is answered");
    }
    assert_eq!(seat.under_way.load(Ordering::Acquire), 0);
}

#[test]
fn more_conversations_than_can_be_kept_are_refused_and_those_that_are_known_go_on() {
    let sessions = Sessions::new(Box::new(Nobody));
    for n in 0..KEPT {
        assert!(sessions.seat(&ask(&n.to_string(), None)).is_some());
    }
    assert!(sessions.seat(&ask("one more", None)).is_none());
    assert!(sessions.seat(&ask("7", None)).is_some());
}

#[test]
fn a_subagents_conversation_is_its_parents_and_moves_no_other() {
    let sessions = Sessions::new(Box::new(Nobody));
    let seat = |session, parent| sessions.seat(&ask(session, parent)).unwrap();
    let (main, other) = (seat("main", None), seat("other", None));
    assert!(Arc::ptr_eq(&main, &seat("sub", Some("main"))));
    assert!(Arc::ptr_eq(&main, &seat("below", Some("sub"))));
    assert!(Arc::ptr_eq(&main, &seat("sub", None)));
    assert!(Arc::ptr_eq(&other, &seat("other", Some("main"))), "a conversation stays what it is");
}
