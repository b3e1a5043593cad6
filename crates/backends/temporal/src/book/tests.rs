//! What needs no journal; the rest is tested with one, in `home/tests.rs`.

use super::*;

#[test]
fn a_job_without_records_is_begun() {
    let book = Book::default();
    assert_eq!((book.next(0), book.status(), book.acknowledged().records), (Next::Segment, "running", 0));
}

#[test]
fn a_job_that_is_given_up_says_what_is_not_known() {
    let mut book = Book::default();
    book.fail("Abandoned", "ada gave it up");
    book.fail("Abandoned", "bob gave it up");
    let Next::Over(Outcome::Failed { error }) = book.next(0) else { panic!("{book:?}") };
    assert_eq!(error.kind, "Abandoned");
    assert_eq!(error.message, "ada gave it up; what its home node did after its last acknowledged record is not known");
}

#[test]
fn a_record_that_does_not_replay_is_refused() {
    let mut book = Book::default();
    assert!(book.take(&["{}".to_owned()]).is_err());
    assert!(book.take(&[r#"{"seq":0,"fact":"cancelled","by":"x"}"#.to_owned()]).is_err());
    assert_eq!(book.acknowledged().records, 0);
}
