//! `subscriptions/listen` over HTTP: the client's stream stays open, and the request is sent to one server after another.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::{Response, StatusCode, request::Parts},
};
use bytes::Bytes;
use http_body_util::BodyExt;
use tokio::{sync::broadcast, time::interval};

use super::{
    super::{
        listening::{ACKNOWLEDGED, Listening},
        message::{INTERNAL_ERROR, Kind as Is, METHOD_NOT_FOUND, Message, error},
        offers::Kind,
    },
    Answer, Front,
    backend::Backend,
    events::Event,
    exchange::{Ended, Events, channel, forward},
    is_events,
};

/// How often a stream that no server carries is shown to be alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A request that listens, and its client's stream.
struct Listens {
    front: Arc<Front>,
    parts: Parts,
    body: Bytes,
    listening: Listening,
    changes: broadcast::Receiver<BTreeSet<Kind>>,
    events: Events,
    is_answered: bool,
}

/// What a server made of the request.
enum Opened {
    Stream(Body),
    /// It does not know the method.
    Unknown,
    /// Something else, which is for the client.
    Other(Response<Body>),
    /// It went away.
    Gone,
}

impl Front {
    /// Passes a request that listens on.
    pub(super) async fn listen(
        self: &Arc<Self>,
        parts: &Parts,
        body: Bytes,
        id: &str,
        message: &Message<'_>,
    ) -> Answer {
        let changes = self.backends.changes();
        let backend = match self.backends.begin().await {
            Ok(work) => work.backend().clone(),
            Err(why) => return super::json(StatusCode::OK, error(id, INTERNAL_ERROR, why)),
        };
        let (events, readable) = channel();
        let listening = Listening::read(id, message);
        let front = Arc::clone(self);
        let listens = Listens { front, parts: parts.clone(), body, listening, changes, events, is_answered: false };
        let opened = listens.open(&backend).await;
        if let Opened::Other(response) = opened {
            return response;
        }
        tokio::spawn(listens.follow(backend, opened));
        readable.into_response()
    }
}

impl Listens {
    async fn open(&self, backend: &Backend) -> Opened {
        let Ok(response) = backend.send(&self.parts, self.body.clone()).await else { return Opened::Gone };
        if is_events(response.headers()) {
            return Opened::Stream(response.into_body());
        }
        let (mut head, body) = response.into_parts();
        let Ok(whole) = body.collect().await else { return Opened::Gone };
        let whole = whole.to_bytes();
        let code = std::str::from_utf8(&whole).ok().and_then(|text| Message::read(text)?.error_code());
        if code == Some(METHOD_NOT_FOUND) {
            return Opened::Unknown;
        }
        head.headers.remove(axum::http::header::TRANSFER_ENCODING);
        Opened::Other(Response::from_parts(head, whole.into()))
    }

    /// Passes on what one server after another has to tell.
    async fn follow(mut self, mut backend: Backend, mut opened: Opened) {
        loop {
            let ended = match opened {
                Opened::Stream(mut body) => self.forward(&mut body, &backend).await,
                Opened::Unknown => match self.listening.acknowledge() {
                    Some(text) => self.send([text]).await,
                    None => Ended::Badly,
                },
                Opened::Other(response) => {
                    let whole = response.into_body().collect().await.map(http_body_util::Collected::to_bytes);
                    let text = whole.ok().and_then(|whole| String::from_utf8(whole.to_vec()).ok());
                    self.send(text).await;
                    return;
                }
                Opened::Gone => Ended::Badly,
            };
            if ended == Ended::Unread || self.is_answered {
                return;
            }
            let Some(newer) = self.newer(backend.generation).await else { return };
            backend = newer;
            opened = self.open(&backend).await;
            let mut kinds = BTreeSet::new();
            while let Ok(more) = self.changes.try_recv() {
                kinds.extend(more);
            }
            if self.send(self.listening.news(&kinds)).await == Ended::Unread {
                return;
            }
        }
    }

    async fn forward(&mut self, body: &mut Body, backend: &Backend) -> Ended {
        let (listening, is_answered, front) = (&mut self.listening, &mut self.is_answered, &self.front);
        let forward = forward(body, &self.events, |event| {
            let Some(data) = event.data() else { return Some(event.clone()) };
            let Some(message) = Message::read(&data) else { return Some(event.clone()) };
            match message.kind() {
                Is::Notification { method: ACKNOWLEDGED } => {
                    listening.acknowledged(&data, &message).map(|text| event.with_data(&text))
                }
                // A server that another takes the place of ends its streams.
                Is::Response { .. } if !front.backends.is_current(backend.generation) => None,
                Is::Response { .. } => {
                    *is_answered = true;
                    Some(event.clone())
                }
                _ => Some(event.clone()),
            }
        });
        tokio::select! {
            biased;
            ended = forward => ended,
            _ = self.front.backends.newer_than(backend.generation) => Ended::Badly,
        }
    }

    /// Waits for another server, and shows meanwhile that the stream is alive. At the end of everything the request is answered.
    async fn newer(&self, server: super::Generation) -> Option<Backend> {
        let mut alive = interval(KEEP_ALIVE);
        let newer = self.front.backends.newer_than(server);
        tokio::pin!(newer);
        loop {
            tokio::select! {
                newer = &mut newer => {
                    if newer.is_none() {
                        self.send([self.listening.completed()]).await;
                    }
                    return newer;
                }
                () = self.events.closed() => return None,
                _ = alive.tick() => self.events.send(Event::keep_alive()).await.ok()?,
            }
        }
    }

    async fn send(&self, messages: impl IntoIterator<Item = String>) -> Ended {
        for message in messages {
            if self.events.send(Event::of_message(&message)).await.is_err() {
                return Ended::Unread;
            }
        }
        Ended::Badly
    }
}
