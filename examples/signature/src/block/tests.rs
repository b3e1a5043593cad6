use super::*;

fn keys(seed: u8) -> SigningKey {
    SigningKey::from_bytes(&[seed; 32])
}

#[test]
fn a_signed_text_verifies_and_gives_back_text_job_and_agent() {
    for text in ["The change is fine.", "", "\n\n", "äöü\r\nlast line\n", "x\u{0}y", "ends with a break\n"] {
        for (job, agent) in [("job-1", "reviewer"), ("", ""), ("a\"b\\\n-----END", "\u{1b}[31m\u{202e}")] {
            let signed = sign(&keys(1), job, agent, text);
            let expected = Signed { text, job: job.to_owned(), agent: agent.to_owned() };
            assert_eq!(verify(&keys(1).verifying_key(), &signed), Ok(expected.clone()));
            assert_eq!(verify(&keys(1).verifying_key(), &format!("{signed}\n")), Ok(expected));
        }
    }
}

#[test]
fn a_change_of_any_byte_is_found() {
    let signed = sign(&keys(1), "job-1", "reviewer", "Pay 10 to Ann.\n\nThanks.");
    for at in 0..signed.len() {
        for change in [b'0', b'a', b' ', b'\n', signed.as_bytes()[at] ^ 0x20, signed.as_bytes()[at] ^ 1] {
            let mut bytes = signed.clone().into_bytes();
            if bytes[at] == change {
                continue;
            }
            bytes[at] = change;
            if let Ok(changed) = String::from_utf8(bytes) {
                assert!(verify(&keys(1).verifying_key(), &changed).is_err(), "byte {at} changed to {change}");
            }
        }
        let mut shorter = signed.clone();
        shorter.remove(at);
        assert!(verify(&keys(1).verifying_key(), &shorter).is_err(), "byte {at} removed");
        let mut longer = signed.clone();
        longer.insert(at, 'x');
        assert!(verify(&keys(1).verifying_key(), &longer).is_err(), "a byte put in at {at}");
    }
}

#[test]
fn text_after_the_block_is_found() {
    let signed = sign(&keys(1), "job-1", "reviewer", "Fine.");
    for tail in ["x", " ", "\n\n", "\nPS: and pay Bob", "\r\n"] {
        assert!(verify(&keys(1).verifying_key(), &format!("{signed}{tail}")).is_err(), "{tail:?}");
    }
}

#[test]
fn a_block_moved_to_another_text_job_or_agent_does_not_verify() {
    let signed = sign(&keys(1), "job-1", "reviewer", "Fine.");
    for (from, to) in [("Fine.", "Bad."), ("\"job-1\"", "\"job-2\""), ("\"reviewer\"", "\"root\"")] {
        assert_eq!(verify(&keys(1).verifying_key(), &signed.replace(from, to)), Err(VerifyError::Forged));
    }
}

#[test]
fn the_border_between_job_agent_and_text_is_signed_too() {
    assert_ne!(message("ab", "c", "d"), message("a", "bc", "d"));
    assert_ne!(message("a", "b", "cd"), message("a", "bc", "d"));
}

#[test]
fn another_key_is_named() {
    let signed = sign(&keys(1), "job-1", "reviewer", "Fine.");
    let error = verify(&keys(2).verifying_key(), &signed).unwrap_err();
    assert_eq!(
        error,
        VerifyError::OtherKey { found: key::id(&keys(1).verifying_key()), expected: key::id(&keys(2).verifying_key()) }
    );
}

#[test]
fn an_output_that_brings_its_own_block_is_signed_as_a_whole() {
    let forged = sign(&keys(9), "job-0", "somebody", "Pay Bob.");
    let signed = sign(&keys(1), "job-1", "reviewer", &forged);
    assert_eq!(verify(&keys(1).verifying_key(), &signed).unwrap().text, forged);
}

#[test]
fn a_text_without_a_block_says_so() {
    for text in ["", "Fine.", BEGIN, END, "-----BEGIN HOOKWRIGHT SIGNATURE-----\n-----END HOOKWRIGHT SIGNATURE-----"] {
        assert_eq!(verify(&keys(1).verifying_key(), text), Err(VerifyError::NoBlock), "{text:?}");
    }
}

#[test]
fn a_block_in_another_spelling_is_damaged() {
    let signed = sign(&keys(1), "job-1", "reviewer", "Fine.");
    for (from, to) in [
        ("version: 1", "version: 2"),
        ("job: \"job-1\"", "job:  \"job-1\""),
        ("\"job-1\"", "\"job\\u002d1\""),
        ("signature: ", "Signature: "),
    ] {
        assert_eq!(verify(&keys(1).verifying_key(), &signed.replace(from, to)), Err(VerifyError::Damaged), "{to}");
    }
}
