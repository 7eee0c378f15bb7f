//! Requests that servers send to the client. Several servers may use the same id, so clashing ids are replaced.

use std::collections::{HashMap, HashSet};

use super::message::{Generation, RequestId};

/// The requests of servers that the client has not answered.
#[derive(Debug, Default)]
pub(super) struct ServerRequests {
    pending: HashMap<RequestId, PendingRequest>,
    /// The client's ids of requests whose server is gone. A late response must not reach another server.
    abandoned: HashSet<RequestId>,
    /// The number of ids that were replaced.
    replaced: u64,
}

#[derive(Debug)]
struct PendingRequest {
    server: Generation,
    /// The id that the server sent.
    server_id: String,
    /// The id that the client received.
    client_id: String,
    progress_token: Option<RequestId>,
}

impl ServerRequests {
    /// Records a request and returns the id to send to the client.
    pub(super) fn add(&mut self, server: Generation, id: &str, progress_token: Option<&str>) -> String {
        let is_taken = |requests: &Self, id: &str| {
            RequestId::parse(id).is_none_or(|id| requests.pending.contains_key(&id) || requests.abandoned.contains(&id))
        };
        let mut client_id = id.to_owned();
        while is_taken(self, &client_id) {
            self.replaced += 1;
            client_id = format!("\"cargo-mcp-{server}-{}\"", self.replaced);
        }
        if let Some(key) = RequestId::parse(&client_id) {
            let progress_token = progress_token.and_then(RequestId::parse);
            let request =
                PendingRequest { server, server_id: id.to_owned(), client_id: client_id.clone(), progress_token };
            self.pending.insert(key, request);
        }
        client_id
    }

    /// Removes the request that the client responds to. Returns its server and the server's id, or `None` if it is
    /// unknown or its server is gone.
    pub(super) fn finish(&mut self, client_id: &str) -> Option<(Generation, String)> {
        let key = RequestId::parse(client_id)?;
        self.abandoned.remove(&key);
        self.pending.remove(&key).map(|request| (request.server, request.server_id))
    }

    /// Removes a request that its server cancelled. Returns the client's id.
    pub(super) fn cancel(&mut self, server: Generation, server_id: &str) -> Option<String> {
        let id = RequestId::parse(server_id)?;
        let matches = |request: &PendingRequest| {
            request.server == server && RequestId::parse(&request.server_id).as_ref() == Some(&id)
        };
        let key = self.pending.iter().find(|(_, request)| matches(request)).map(|(key, _)| key.clone())?;
        self.abandoned.insert(key.clone());
        self.pending.remove(&key).map(|request| request.client_id)
    }

    /// Returns the server that sent a progress token.
    pub(super) fn progress_receiver(&self, token: &str) -> Option<Generation> {
        let token = RequestId::parse(token)?;
        let mut requests = self.pending.values();
        requests.find(|request| request.progress_token.as_ref() == Some(&token)).map(|request| request.server)
    }

    /// Removes the requests of a server that is gone. Returns the client's ids.
    pub(super) fn abandon(&mut self, server: Generation) -> Vec<String> {
        let removed: Vec<_> = self.pending.extract_if(|_, request| request.server == server).collect();
        self.abandoned.extend(removed.iter().map(|(key, _)| key.clone()));
        let mut ids: Vec<_> = removed.into_iter().map(|(_, request)| request.client_id).collect();
        ids.sort();
        ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_reach_the_server_that_sent_the_request() {
        let mut requests = ServerRequests::default();
        assert_eq!(requests.add(1, "0", Some("5")), "0");
        let replaced = requests.add(2, "0", None);
        assert_ne!(replaced, "0");
        assert_eq!(requests.progress_receiver("5"), Some(1));
        assert_eq!(requests.finish(&replaced), Some((2, "0".to_owned())));
        assert_eq!(requests.finish("0"), Some((1, "0".to_owned())));
        assert_eq!(requests.finish("0"), None);
        assert_eq!(requests.add(2, "0", None), "0", "a free id is kept");
    }

    #[test]
    fn late_responses_do_not_reach_another_server() {
        let mut requests = ServerRequests::default();
        requests.add(1, "7", None);
        assert_eq!(requests.abandon(1), ["7"]);
        let replaced = requests.add(2, "7", None);
        assert_ne!(replaced, "7");
        assert_eq!(requests.finish("7"), None);
        assert_eq!(requests.cancel(2, "7"), Some(replaced));
        assert_eq!(requests.add(3, "7", None), "7", "the late response freed the id");
    }
}
