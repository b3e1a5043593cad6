use super::*;

fn list(texts: &[&str]) -> List {
    let mut list = List::default();
    list.add(&texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>()).unwrap();
    list
}

#[test]
fn an_empty_list_says_nothing() {
    let list = List::default();
    assert_eq!((list.objection(None), list.shown()), (None, None));
}

#[test]
fn open_items_object_and_ticked_ones_do_not() {
    let mut list = list(&["write it", "test it"]);
    assert_eq!(
        list.objection(Some(2)).unwrap(),
        "2 of 2 to-do items are open:\n1. write it\n2. test it\n\
         Do them and `tick` them, or `drop` those that are not needed and say why."
    );
    list.tick(&[1]).unwrap();
    assert_eq!(
        list.objection(Some(0)).unwrap(),
        "1 of 2 to-do items is open:\n2. test it\n\
         Do them and `tick` them, or `drop` those that are not needed and say why. This is the last reminder."
    );
    list.tick(&[2]).unwrap();
    assert_eq!(list.objection(None), None);
    assert_eq!(list.shown().unwrap(), "The to-do list, 2 of 2 done:\n1. [x] write it\n2. [x] test it");
}

#[test]
fn dropped_items_are_no_longer_planned_and_their_numbers_stay_theirs() {
    let mut list = list(&["a", "b", "c"]);
    list.drop_items(&[2]).unwrap();
    assert_eq!(list.add(&["d".to_owned()]), Ok(4));
    assert_eq!(list.shown().unwrap(), "The to-do list, 0 of 3 done:\n1. [ ] a\n3. [ ] c\n4. [ ] d");
    list.tick(&[1, 3, 4]).unwrap();
    assert_eq!(list.objection(None), None);
}

#[test]
fn a_change_with_one_wrong_number_changes_nothing() {
    let mut list = list(&["a", "b"]);
    for (numbers, wrong) in [(vec![1, 3], 3), (vec![1, 0], 0), (vec![usize::MAX], usize::MAX)] {
        assert_eq!(list.tick(&numbers), Err(ListError::NotOpen(wrong)));
        assert_eq!(list.open(), 2);
    }
    list.tick(&[1]).unwrap();
    assert_eq!(list.drop_items(&[1]), Err(ListError::NotOpen(1)));
    assert_eq!(list.tick(&[]), Err(ListError::Nothing));
}

#[test]
fn texts_are_single_lines_within_the_limit() {
    let mut list = List::default();
    for bad in [String::new(), " \n\t".to_owned(), "x".repeat(ITEM_CHARS + 1)] {
        assert_eq!(list.add(&["good".to_owned(), bad]), Err(ListError::Text));
        assert_eq!(list.open(), 0, "a refused change adds nothing");
    }
    list.add(&[" two\n  lines ".to_owned()]).unwrap();
    assert!(list.shown().unwrap().ends_with("1. [ ] two lines"));
}

#[test]
fn a_full_list_takes_no_more() {
    let mut list = List::default();
    list.add(&vec!["x".to_owned(); MAX_ITEMS]).unwrap();
    assert_eq!(list.add(&["y".to_owned()]), Err(ListError::Full(MAX_ITEMS)));
}
