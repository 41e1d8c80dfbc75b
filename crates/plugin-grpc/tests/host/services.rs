//! Channels and providers.

use crate::hostile::RAW;
use crate::support::{Fixture, PATIENCE};
use airlock_plugin::{CallError, Kind};
use airlock_plugin_grpc::Piece;
use airlock_plugin_grpc::proto::airlock::{ChatMessage, ChatRequest, Presence, Role, SendRequest};
use std::sync::atomic::AtomicBool;

#[test]
fn a_channel_receives_sends_and_is_present() {
    let fixture = Fixture::python(RAW)
        .in_the_clear()
        .argument("good")
        .kind(Kind::Channel);
    let plugin = fixture.started();
    let never = AtomicBool::new(false);
    assert_eq!(plugin.identity().map(|bot| bot.id.as_str()), Some("bot-1"));
    let mut came = Vec::new();
    let received = plugin.receive(
        |message| {
            came.push(message);
            came.len() < 3
        },
        &never,
    );
    assert_eq!(received, Ok(()));
    assert_eq!(came[2].text, "message 2");
    assert_eq!(came[2].sender.as_ref().unwrap().id, "u1");
    assert_eq!(came[2].attachments[0].data, b"c");
    // Whoever wants no more is gone for the plugin too.
    assert_eq!(fixture.written("left"), "yes");
    let message = SendRequest {
        conversation: "room".to_owned(),
        text: "hi".to_owned(),
        reply_to: "2".to_owned(),
    };
    assert_eq!(
        plugin.send(message, PATIENCE, &never).as_deref(),
        Ok("room/hi/2")
    );
    plugin
        .update_presence("room", Presence::Busy, PATIENCE, &never)
        .unwrap();
    assert_eq!(fixture.written("presence"), "room=2");
}

#[test]
fn receiving_ends_when_it_is_cancelled() {
    let plugin = Fixture::python(RAW)
        .in_the_clear()
        .argument("good")
        .kind(Kind::Channel)
        .started();
    let cancelled = AtomicBool::new(false);
    let mut left = 3;
    let received = plugin.receive(
        |_| {
            left -= 1;
            cancelled.store(left == 0, std::sync::atomic::Ordering::Relaxed);
            true
        },
        &cancelled,
    );
    assert_eq!(received, Err(CallError::Cancelled));
}

#[test]
fn a_provider_is_asked_and_answers_in_pieces() {
    let plugin = Fixture::python(RAW)
        .in_the_clear()
        .argument("good")
        .kind(Kind::Provider)
        .started();
    let never = AtomicBool::new(false);
    assert_eq!(plugin.models()[0].id, "small");
    assert_eq!(
        plugin.status(PATIENCE, &never),
        Ok(Err("no key".to_owned()))
    );
    let ask = |model: &str| ChatRequest {
        model: model.to_owned(),
        messages: vec![ChatMessage {
            role: Role::User.into(),
            text: "hello".to_owned(),
            ..ChatMessage::default()
        }],
        ..ChatRequest::default()
    };
    let mut pieces = Vec::new();
    let mut keep = |piece| {
        pieces.push(piece);
        true
    };
    let finish = plugin
        .chat(ask("small"), &mut keep, PATIENCE, &never)
        .unwrap();
    assert_eq!(
        (finish.reason.as_str(), finish.input_tokens),
        ("tool_calls", 3)
    );
    assert_eq!(pieces[0], Piece::Text("2:hello;".to_owned()));
    assert!(matches!(&pieces[1], Piece::ToolCall(call) if call.name == "fs.read"));
    for (model, wanted) in [
        ("silent", "plugin_protocol"),
        ("endless", "output_too_large"),
    ] {
        let error = plugin
            .chat(ask(model), |_| true, PATIENCE, &never)
            .unwrap_err();
        assert_eq!(error.code(), wanted, "{model}: {error}");
    }
}

#[test]
fn a_type_it_does_not_serve_keeps_it_from_starting() {
    for (kind, wanted) in [
        (Kind::Channel, "Channel.GetIdentity: it does not serve this"),
        (
            Kind::Provider,
            "Provider.ListModels: it does not serve this",
        ),
        (Kind::Skill, "a skill has no code"),
    ] {
        let error = Fixture::python(RAW)
            .in_the_clear()
            .argument("no-channel")
            .kind(kind)
            .refused();
        assert!(error.to_string().contains(wanted), "{kind:?}: {error}");
    }
}
