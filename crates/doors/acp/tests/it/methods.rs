//! Each method, as the SDK's client calls it.

use crate::world::{World, talk};
use hookwright_acp::sdk::v1::ConnectionTo;
use hookwright_acp::sdk::v1::schema::{
    CancelNotification, CloseSessionRequest, ContentBlock, DeleteSessionRequest, ListSessionsRequest,
    LoadSessionRequest, PermissionOptionKind, PromptRequest, ResumeSessionRequest, SessionUpdate,
    SetSessionConfigOptionRequest, SetSessionModeRequest, StopReason, ToolCallStatus,
};
use hookwright_acp::sdk::{Agent, Error};
use std::sync::atomic::Ordering;

async fn prompt(agent: &ConnectionTo<Agent>, session: &str, text: &str) -> Result<StopReason, Error> {
    let request = PromptRequest::new(session.to_owned(), vec![ContentBlock::from(text)]);
    Ok(agent.send_request(request).block_task().await?.stop_reason)
}

fn said(updates: &[SessionUpdate]) -> String {
    let text = |update: &SessionUpdate| match update {
        SessionUpdate::AgentMessageChunk(chunk) => match &chunk.content {
            ContentBlock::Text(text) => Some(text.text.clone()),
            _ => None,
        },
        _ => None,
    };
    updates.iter().filter_map(text).collect::<Vec<_>>().join("|")
}

#[tokio::test]
async fn a_session_from_its_first_prompt_to_its_deletion() {
    talk(World::new(), PermissionOptionKind::AllowOnce, async |agent, session, seen| {
        assert_eq!(prompt(&agent, &session, "hello").await?, StopReason::EndTurn);
        // The next prompt is behind the first and its answer.
        assert_eq!(prompt(&agent, &session, "hello").await?, StopReason::EndTurn);
        assert_eq!(said(&seen.lock().unwrap()), "1 messages|3 messages");
        let used = |u: &SessionUpdate| matches!(u, SessionUpdate::UsageUpdate(u) if (u.used, u.size) == (111, 1_000));
        assert_eq!(seen.lock().unwrap().iter().filter(|u| used(u)).count(), 2);

        let listed = agent.send_request(ListSessionsRequest::new()).block_task().await?;
        assert_eq!(listed.sessions[0].title.as_deref(), Some("hello"));
        agent.send_request(CloseSessionRequest::new(session.clone())).block_task().await?;
        assert!(prompt(&agent, &session, "hello").await.is_err(), "a closed session takes no prompt");
        agent.send_request(ResumeSessionRequest::new(session.clone(), "/work")).block_task().await?;
        seen.lock().unwrap().clear();
        agent.send_request(LoadSessionRequest::new(session.clone(), "/work")).block_task().await?;
        let told = seen.lock().unwrap().clone();
        assert_eq!(told.iter().filter(|u| matches!(u, SessionUpdate::UserMessageChunk(_))).count(), 2);
        assert_eq!(said(&told), "1 messages|3 messages");
        agent.send_request(DeleteSessionRequest::new(session.clone())).block_task().await?;
        let listed = agent.send_request(ListSessionsRequest::new()).block_task().await?;
        assert!(listed.sessions.is_empty());
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_question_is_answered_while_the_prompt_waits_and_no_handler_blocks() {
    for (answer, status) in [
        (PermissionOptionKind::AllowOnce, ToolCallStatus::Completed),
        (PermissionOptionKind::RejectOnce, ToolCallStatus::Failed),
    ] {
        talk(World::new(), answer, async |agent, session, seen| {
            assert_eq!(prompt(&agent, &session, "push").await?, StopReason::EndTurn);
            let seen = seen.lock().unwrap();
            let last = seen.iter().rev().find_map(|u| match u {
                SessionUpdate::ToolCallUpdate(update) => update.fields.status,
                _ => None,
            });
            assert_eq!(last, Some(status));
            Ok(())
        })
        .await;
    }
}

#[tokio::test]
async fn modes_and_options_can_be_set_and_a_cancel_without_a_prompt_is_nothing() {
    talk(World::new(), PermissionOptionKind::AllowOnce, async |agent, session, seen| {
        agent.send_notification(CancelNotification::new(session.clone()))?;
        agent.send_request(SetSessionModeRequest::new(session.clone(), "deny")).block_task().await?;
        let request = SetSessionConfigOptionRequest::new(session.clone(), "model", "counting");
        let options = agent.send_request(request).block_task().await?.config_options;
        assert_eq!(options.len(), 2);
        assert_eq!(prompt(&agent, &session, "push").await?, StopReason::EndTurn);
        let failed = |u: &SessionUpdate| matches!(u, SessionUpdate::ToolCallUpdate(u) if u.fields.status == Some(ToolCallStatus::Failed));
        assert!(seen.lock().unwrap().iter().any(failed), "in mode deny an escalation is a no");
        let error = prompt(&agent, &session, "impossible").await.unwrap_err();
        assert_eq!((error.code.value(), error.message.as_str()), (-32_602, "this prompt can't be taken"));
        assert_eq!(prompt(&agent, &session, "hello").await?, StopReason::EndTurn, "the session goes on");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_session_that_is_loaded_many_times_at_once_has_its_servers_once() {
    let world = World::new();
    talk(world.clone(), PermissionOptionKind::AllowOnce, async |agent, session, _| {
        assert_eq!(prompt(&agent, &session, "hello").await?, StopReason::EndTurn);
        let load = || agent.send_request(LoadSessionRequest::new(session.clone(), "/work"));
        let resume = || agent.send_request(ResumeSessionRequest::new(session.clone(), "/work"));
        let (a, b, c, d) = (load(), resume(), load(), resume());
        a.block_task().await?;
        b.block_task().await?;
        c.block_task().await?;
        d.block_task().await?;
        assert_eq!(prompt(&agent, &session, "hello").await?, StopReason::EndTurn);
        Ok(())
    })
    .await;
    let [started, left, most] = [0, 1, 2].map(|i| world.servers[i].load(Ordering::SeqCst));
    assert_eq!((started, left, most), (5, 5, 1));
}
