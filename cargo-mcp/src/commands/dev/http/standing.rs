//! GET: a session's stream for what belongs to no request. The client's stays open, whatever server is behind it.

use std::sync::Arc;

use axum::{
    body::Body,
    http::{StatusCode, request::Parts},
};
use bytes::Bytes;
use tokio::sync::{broadcast, mpsc};

use super::{
    super::message::{INTERNAL_ERROR, error},
    Answer, Front, Held, LAST_EVENT, SESSION,
    backend::Backend,
    events::{Event, read_id},
    exchange::{Apart, Ended, Events, Filter, channel, forward},
    header_value, is_events, lock,
};

/// A stream of the client's.
struct Standing {
    front: Arc<Front>,
    held: Arc<Held>,
    parts: Parts,
    events: Events,
    /// Whether it takes up the stream of a request, which its server finishes.
    resumes: bool,
    /// A server that is on its way out and does not answer any more.
    gone: Option<super::Generation>,
}

impl Front {
    /// Opens the stream of a session.
    pub(super) async fn stand(self: &Arc<Self>, held: &Arc<Held>, mut parts: Parts) -> Answer {
        let last = parts.headers.remove(&LAST_EVENT).and_then(|id| id.to_str().ok().map(str::to_owned));
        let last = last.as_deref().and_then(read_id);
        // The stream may be of a server that is on its way out, and still finishes it.
        let old = last.and_then(|(server, id)| Some((self.backends.alive(server)?, id)));
        let backend = match (old, self.backends.begin().await) {
            (Some((backend, id)), _) => {
                parts.headers.insert(LAST_EVENT, header_value(id));
                backend
            }
            (None, Ok(work)) => work.backend().clone(),
            (None, Err(why)) => return super::refuse(StatusCode::SERVICE_UNAVAILABLE, &why),
        };
        let resumes = parts.headers.contains_key(&LAST_EVENT);
        let (events, readable) = channel();
        let mut standing =
            Standing { front: Arc::clone(self), held: Arc::clone(held), parts, events, resumes, gone: None };
        let mut opened = standing.open(&backend).await;
        let mut backend = backend;
        if resumes
            && !matches!(opened, Ok(Ok(_)))
            && let Some(newer) = self.backends.current().filter(|newer| newer.generation != backend.generation)
        {
            // The old server ended in this very moment.
            standing.gone = Some(backend.generation);
            standing.resumes = false;
            standing.parts.headers.remove(&LAST_EVENT);
            opened = standing.open(&newer).await;
            backend = newer;
        }
        let body = match opened {
            Ok(Ok(body)) => body,
            Ok(Err(other)) => return other,
            Err(Apart::Refused) => return super::gone(),
            Err(Apart::Failed) => return super::refuse(StatusCode::SERVICE_UNAVAILABLE, "the server went away"),
        };
        let has_lost = last.is_some() && !standing.resumes;
        tokio::spawn(tell_notices(self.backends.notices(), Arc::clone(held), standing.events.downgrade()));
        tokio::spawn(standing.follow(backend, Some(body), has_lost));
        readable.into_response()
    }
}

impl Standing {
    /// Opens the stream behind; gives the response if it is none.
    async fn open(&self, backend: &Backend) -> Result<Result<Body, Answer>, Apart> {
        let id = self.front.join(&self.held, backend).await?;
        let mut parts = self.parts.clone();
        parts.headers.insert(SESSION, header_value(&id));
        let response = backend.send(&parts, Bytes::new()).await.map_err(|_| Apart::Failed)?;
        match response.status() == StatusCode::OK && is_events(response.headers()) {
            true => Ok(Ok(response.into_body())),
            false => Ok(Err(response)),
        }
    }

    /// Passes the events of one server after another on.
    async fn follow(mut self, mut backend: Backend, mut body: Option<Body>, has_lost: bool) {
        if has_lost {
            self.tell_lost().await;
        }
        loop {
            let is_told = self.resumes || self.tell().await;
            let ended = match &mut body {
                Some(body) if is_told => self.forward(body, &backend).await,
                _ => Ended::Badly,
            };
            if ended == Ended::Unread || (ended == Ended::Well && self.front.backends.is_current(backend.generation)) {
                return;
            }
            let newer = tokio::select! {
                newer = self.front.backends.newer_than(backend.generation) => newer,
                () = self.events.closed() => None,
            };
            let Some(newer) = newer else { return };
            if std::mem::take(&mut self.resumes) {
                self.parts.headers.remove(&LAST_EVENT);
                self.tell_lost().await;
            }
            backend = newer;
            body = match self.open(&backend).await {
                Ok(opened) => opened.ok(),
                // The client learns from the end of the stream, and then from the status.
                Err(Apart::Refused) => return,
                Err(Apart::Failed) => None,
            };
        }
    }

    async fn forward(&self, body: &mut Body, backend: &Backend) -> Ended {
        let session = Some(Arc::clone(&self.held));
        let mut filter = Filter::new(Arc::clone(&self.front), backend.generation, session, Vec::new(), None, false);
        let forward = forward(body, &self.events, |event| filter.event(event));
        if self.resumes {
            return forward.await;
        }
        tokio::select! {
            biased;
            ended = forward => ended,
            _ = self.front.backends.newer_than(backend.generation) => Ended::Badly,
        }
    }

    /// Tells what another build changed.
    async fn tell(&self) -> bool {
        let news = lock(&self.held.state).take_news();
        for line in news {
            if self.events.send(Event::of_message(&line)).await.is_err() {
                return false;
            }
        }
        true
    }

    /// Answers what servers that are gone have not answered.
    async fn tell_lost(&self) {
        let is_gone = |server| self.gone == Some(server) || self.front.backends.alive(server).is_none();
        let ids = lock(&self.held.state).unanswered(None, is_gone);
        for id in ids {
            let error = error(&id, INTERNAL_ERROR, "the server was rebuilt or ended before it answered");
            let _ = self.events.send(Event::of_message(&error)).await;
        }
    }
}

/// Tells of builds that fail, as long as there is the stream.
async fn tell_notices(mut notices: broadcast::Receiver<String>, held: Arc<Held>, events: mpsc::WeakSender<Event>) {
    while let Ok(line) = notices.recv().await {
        let Some(events) = events.upgrade() else { return };
        let hears = lock(&held.state).hears_errors();
        if hears && events.send(Event::of_message(&line)).await.is_err() {
            return;
        }
    }
}
