//! The messages between the replica that receives a POST and the one that holds the stream of its session.

use std::time::SystemTime;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, header, request::Parts};
use http_body_util::BodyExt as _;
use memchr::memchr;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    auth::{Identity, Principal},
    engine::Slot,
    transport::http::{
        body::HttpBody,
        peers::Remote,
        response::{self, HttpResponse},
        sender,
    },
};

/// The kind of the messages between replicas.
pub(super) const KIND: &str = "legacy";

/// The maximum size of the body of a forwarded response. A longer one is omitted.
const MAX_RESPONSE_BYTES: usize = 256 << 10;

/// The headers that no function sees if other replicas share the backend: only some of them would.
const CREDENTIALS: [HeaderName; 4] =
    [header::AUTHORIZATION, header::PROXY_AUTHORIZATION, header::COOKIE, HeaderName::from_static("dpop")];

/// A message from one replica to another. Bytes may follow it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Message {
    /// A POST. An [inline](Content::Inline) body follows.
    Posted(Box<Posted>),
    /// What has become of a POST. The body of the response follows.
    Reply { number: u64, reply: Reply },
}

/// A POST that another replica has received.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Posted {
    /// Repetitions have the same id.
    pub(super) id: MessageId,
    /// The numbers of the messages to this session that the sender waits for, including this one.
    pub(super) waiting: Vec<u64>,
    pub(super) session: String,
    pub(super) content: Content,
    pub(super) head: Head,
}

/// What identifies a message. A sender numbers its messages in ascending order.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct MessageId {
    pub(super) sender: Slot,
    pub(super) number: u64,
}

/// Where the body of a POST is.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) enum Content {
    Inline,
    /// There is none: the message asks whether the session would receive the POST, whose body is stored afterwards.
    Check,
    /// The body is a record of this number of bytes.
    Stored {
        number: u64,
        bytes: usize,
    },
}

/// What has become of a POST.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    /// The message is being received.
    Pending,
    Done {
        status: u16,
        headers: Vec<(String, String)>,
    },
}

/// The head of a POST, without credentials, and its sender.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) remote: Remote,
    sender: Sender,
    uri: String,
    headers: Vec<(String, String)>,
}

/// The sender of a POST, as the replica that has received it has identified it.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Sender {
    Anonymous,
    Principal(String),
    Identity { principal: String, scopes: Vec<String>, expires_at: Option<SystemTime>, claims: Value },
}

impl Message {
    pub(super) fn encode(&self, bytes: &[u8]) -> Vec<u8> {
        // Fails only for maps with keys that are not strings.
        let mut message = serde_json::to_vec(self).unwrap_or_default();
        message.push(b'\n');
        message.extend_from_slice(bytes);
        message
    }

    /// Returns a message and the bytes that follow it. Returns `None` if it has another form, which a newer release may
    /// use.
    pub(super) fn decode(message: &[u8]) -> Option<(Self, &[u8])> {
        let end = memchr(b'\n', message)?;
        Some((serde_json::from_slice(&message[..end]).ok()?, &message[end + 1..]))
    }
}

impl Head {
    pub(super) fn new(remote: Remote, request: &Parts) -> Self {
        let sender = match sender::identity(request) {
            Some(identity) => Sender::Identity {
                principal: identity.principal().as_str().to_owned(),
                scopes: identity.scopes().map(str::to_owned).collect(),
                expires_at: identity.expires_at(),
                claims: identity.claims().unwrap_or_default(),
            },
            None => match sender::principal(request) {
                Some(principal) => Sender::Principal(principal.to_owned()),
                None => Sender::Anonymous,
            },
        };
        Self { remote, sender, uri: request.uri.to_string(), headers: encode_headers(&request.headers) }
    }

    /// Returns the size of the encoded head.
    pub(super) fn encoded_len(&self) -> usize {
        // Fails only for maps with keys that are not strings.
        serde_json::to_vec(self).map_or(usize::MAX, |encoded| encoded.len())
    }

    /// Returns the head of a request like the one that the other replica has received.
    pub(super) fn into_request(self) -> Option<Parts> {
        let (mut request, ()) = Request::post(self.uri).body(()).ok()?.into_parts();
        request.headers = decode_headers(self.headers);
        match self.sender {
            Sender::Anonymous => {}
            Sender::Principal(name) => drop(request.extensions.insert(Principal::new(name))),
            Sender::Identity { principal, scopes, expires_at, claims } => {
                let identity = Identity::new(principal).with_scopes(scopes).with_claims(claims);
                let identity = match expires_at {
                    Some(at) => identity.with_expiry(at),
                    None => identity,
                };
                request.extensions.insert(identity);
            }
        }
        Some(request)
    }
}

/// Removes what identifies the sender to an authenticator, which has seen it already. `others` are the headers that only
/// this authenticator reads.
pub(super) fn remove_credentials(headers: &mut HeaderMap, others: &[HeaderName]) {
    for name in CREDENTIALS.iter().chain(others) {
        headers.remove(name);
    }
}

/// Returns the key of the record with the body of a POST.
pub(super) fn stored_key(session: &str, number: u64) -> String {
    format!("mcp/1/posted/{session}:{number}")
}

/// Separates a response, which is not a stream, into a reply and its body.
pub(super) async fn encode_response(response: HttpResponse) -> (Reply, Bytes) {
    let (head, body) = response.into_parts();
    // A body of this type cannot fail.
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let body = if body.len() > MAX_RESPONSE_BYTES { Bytes::new() } else { body };
    (Reply::Done { status: head.status.as_u16(), headers: encode_headers(&head.headers) }, body)
}

/// Returns the response that another replica has sent.
pub(super) fn decode_response(status: u16, headers: Vec<(String, String)>, body: Bytes) -> HttpResponse {
    let mut response = response::empty(StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR));
    *response.headers_mut() = decode_headers(headers);
    *response.body_mut() = HttpBody::complete(body);
    response
}

/// Encodes headers, whose values are bytes: each becomes the character with its number.
fn encode_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &HeaderValue| value.as_bytes().iter().copied().map(char::from).collect();
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect()
}

fn decode_headers(headers: Vec<(String, String)>) -> HeaderMap {
    let decoded = headers.into_iter().filter_map(|(name, value)| {
        let value: Vec<_> = value.chars().map(u8::try_from).collect::<Result<_, _>>().ok()?;
        Some((HeaderName::try_from(name).ok()?, HeaderValue::from_bytes(&value).ok()?))
    });
    let mut headers = HeaderMap::new();
    for (name, value) in decoded {
        headers.append(name, value);
    }
    headers
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn request() -> Parts {
        let request = Request::post("/message?sessionId=1.x").header("x-note", "a").header("x-note", "b");
        let request = request.header("x-bytes", HeaderValue::from_bytes(b"\xe9\xff").unwrap());
        request.body(()).unwrap().into_parts().0
    }

    fn forwarded(request: &Parts) -> (Parts, Remote) {
        let head = Head::new(Remote::User(7), request);
        let content = Content::Inline;
        let id = MessageId { sender: Slot::parse("7").unwrap(), number: 5 };
        let posted = Box::new(Posted { id, waiting: vec![4, 5], session: "1.x".to_owned(), content, head });
        let encoded = Message::Posted(posted).encode(b"a\nb");
        let Some((Message::Posted(posted), b"a\nb")) = Message::decode(&encoded) else { panic!("{encoded:?}") };
        let remote = posted.head.remote;
        (posted.head.into_request().unwrap(), remote)
    }

    #[test]
    fn the_other_replica_sees_the_same_request() {
        let sent = request();
        let (received, remote) = forwarded(&sent);
        assert_eq!((received.method, received.uri, received.headers), (sent.method, sent.uri, sent.headers));
        assert_eq!(remote, Remote::User(7));
        assert_eq!(sender::principal(&request()), None);
    }

    #[test]
    fn the_other_replica_sees_the_same_sender() {
        let expiry = SystemTime::UNIX_EPOCH + Duration::from_millis(1_234_567);
        let identity = Identity::new("ada").with_scopes(["read", "write"]).with_claims(json!({"email": "ada@x"}));
        for identity in [identity.clone(), identity.with_expiry(expiry)] {
            let mut sent = request();
            sent.extensions.insert(identity.clone());
            let (received, _) = forwarded(&sent);
            let received = sender::identity(&received).unwrap();
            assert_eq!(format!("{received:?}"), format!("{identity:?}"));
            assert_eq!(received.claim("email"), identity.claim("email"));
        }
        let mut sent = request();
        sent.extensions.insert(Principal::new(""));
        let (received, _) = forwarded(&sent);
        assert_eq!((sender::identity(&received).is_none(), sender::principal(&received)), (true, Some("")));
    }

    #[test]
    fn credentials_are_removed() {
        let names = ["authorization", "Cookie", "DPoP", "proxy-authorization", "x-api-key", "x-note"];
        let mut headers = HeaderMap::new();
        for name in names {
            headers.append(HeaderName::try_from(name).unwrap(), HeaderValue::from_static("secret"));
        }
        remove_credentials(&mut headers, &[HeaderName::from_static("x-api-key")]);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["x-note"]);
    }

    #[tokio::test]
    async fn responses_arrive_as_they_were() {
        for (text, arrives) in [("", true), ("too many", true), (&*"x".repeat(MAX_RESPONSE_BYTES + 1), false)] {
            let (reply, body) = encode_response(response::overloaded_with(text.into())).await;
            let encoded = Message::Reply { number: 5, reply }.encode(&body);
            let Some((Message::Reply { number: 5, reply: Reply::Done { status, headers } }, body)) =
                Message::decode(&encoded)
            else {
                panic!("{encoded:?}")
            };
            let response = decode_response(status, headers, Bytes::copy_from_slice(body));
            assert_eq!(
                (response.status(), &response.headers()[header::RETRY_AFTER]),
                (StatusCode::SERVICE_UNAVAILABLE, &"1".parse().unwrap())
            );
            let body = response.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(body, if arrives { text } else { "" });
        }
    }
}
