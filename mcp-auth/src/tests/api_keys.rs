use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use http::HeaderName;
use mcp_runtime::auth::{AuthenticationErrorKind as Kind, Authenticator as _, Identity};
use serde_json::{Value, json};

use super::{authenticate, bearer, log::Log, refusal, with_headers};
use crate::{ApiKeys, NewApiKey, clock::Clock};

fn write(path: &Path, keys: &[&NewApiKey]) {
    let keys: Vec<Value> = keys.iter().map(|key| serde_json::from_str(&key.entry()).unwrap()).collect();
    fs::write(path, json!({"keys": keys}).to_string()).unwrap();
}

#[tokio::test]
async fn a_key_identifies_its_principal() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("keys.json");
    let expiry = SystemTime::now() + Duration::from_secs(60);
    let backup = NewApiKey::generate("backup").unwrap().with_scopes(["notes:read"]).with_expiry(expiry);
    let (ci, other) = (NewApiKey::generate("ci").unwrap(), NewApiKey::generate("other").unwrap());
    assert_eq!((backup.secret().len(), &backup.secret()[..4]), (47, "mcp_"));
    assert!(!format!("{backup:?}").contains(backup.secret()));
    write(&path, &[&backup, &ci]);
    let clock = Clock::default();
    let keys = ApiKeys::file_with(path, clock.clone()).unwrap();
    let identity = bearer(&keys, backup.secret()).await.unwrap();
    assert_eq!(identity.principal(), "backup");
    assert!(identity.has_scope("notes:read") && identity.expires_at().is_some());
    let identity = authenticate(&keys, &format!("bearer {}", ci.secret())).await.unwrap();
    assert_eq!((identity.principal(), identity.scopes().count(), identity.expires_at()), ("ci", 0, None));
    for (authorization, expected) in [
        (format!("Bearer {}", other.secret()), (Kind::Invalid, "the API key is unknown", None)),
        ("Bearer x".to_owned(), (Kind::Invalid, "the API key is unknown", None)),
        (format!("DPoP {}", ci.secret()), (Kind::Missing, "authentication is required", None)),
        (format!("Basic {}", ci.secret()), (Kind::Missing, "authentication is required", None)),
    ] {
        let error = authenticate(&keys, &authorization).await.map(|_| ()).unwrap_err();
        assert_eq!(refusal(&error), expected, "{authorization}");
    }
    clock.advance(Duration::from_secs(61));
    let error = bearer(&keys, backup.secret()).await.map(|_| ()).unwrap_err();
    assert_eq!(refusal(&error), (Kind::Invalid, "the API key has expired", Some("the principal is `backup`")));
    bearer(&keys, ci.secret()).await.unwrap();
    assert_eq!(keys.protected_resource().identifier(), None);
}

#[tokio::test]
async fn keys_can_be_values() {
    let identity = |name: &str| Identity::new(name).with_scopes(["notes:read"]);
    let keys = ApiKeys::new([("first".to_owned(), identity("ci")), ("second".to_owned(), identity("backup"))]).unwrap();
    let found = bearer(&keys, "second").await.unwrap();
    assert_eq!((found.principal(), found.has_scope("notes:read")), ("backup", true));
    let error = bearer(&keys, "third").await.map(|_| ()).unwrap_err();
    assert_eq!(refusal(&error), (Kind::Invalid, "the API key is unknown", None));
    for (values, expected) in [
        (vec!["a", "b"], None),
        (vec!["a", ""], Some("the API key of `1` is empty")),
        (vec!["a", &"x".repeat(1024)], None),
        (vec!["a", &"x".repeat(1025)], Some("the API key of `1` is longer than 1 KiB")),
        (vec!["a", "b", "a"], Some("the API key of `2` is the same as another one")),
    ] {
        let keys = values.iter().enumerate().map(|(index, key)| ((*key).to_owned(), identity(&index.to_string())));
        assert_eq!(ApiKeys::new(keys).err().map(|error| error.to_string()).as_deref(), expected, "{values:?}");
    }
    let many = |count: usize| ApiKeys::new((0..count).map(|index| (index.to_string(), identity("ci"))));
    assert!(many(1000).is_ok() && many(1001).is_err());
}

#[tokio::test]
async fn a_header_of_its_own_replaces_authorization() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("keys.json");
    let key = NewApiKey::generate("ci").unwrap();
    write(&path, &[&key]);
    let keys = ApiKeys::file(&path).unwrap().header(HeaderName::from_static("x-api-key"));
    with_headers(&keys, &[("x-api-key", key.secret())]).await.unwrap();
    let longest = "x".repeat(1024);
    let values = ApiKeys::new([(longest.clone(), Identity::new("ci"))]).unwrap();
    with_headers(&values.header(HeaderName::from_static("x-api-key")), &[("x-api-key", &longest)]).await.unwrap();
    let (long, bearer) = ("x".repeat(1024 * 1024), format!("Bearer {}", key.secret()));
    for (headers, expected) in [
        (&[] as &[(&str, &str)], Kind::Missing),
        (&[("authorization", bearer.as_str())], Kind::Missing),
        (&[("x-api-key", key.secret()), ("x-api-key", key.secret())], Kind::Malformed),
        (&[("x-api-key", "")], Kind::Invalid),
        (&[("x-api-key", long.as_str())], Kind::Invalid),
        (&[("x-api-key", "grüße")], Kind::Invalid),
    ] {
        let error = with_headers(&keys, headers).await.map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), expected);
    }
}

#[tokio::test]
async fn the_file_is_read_again_when_it_changes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("keys.json");
    let [first, second] = ["a", "b"].map(|name| NewApiKey::generate(name).unwrap());
    write(&path, &[&first]);
    let clock = Clock::default();
    let keys = ApiKeys::file_with(path.clone(), clock.clone()).unwrap();
    let accepted = async || {
        clock.advance(Duration::from_secs(1));
        (bearer(&keys, first.secret()).await.is_ok(), bearer(&keys, second.secret()).await.is_ok())
    };
    assert_eq!(accepted().await, (true, false));
    write(&path, &[&first, &second]);
    assert_eq!(accepted().await, (true, true));
    write(&path, &[&second]);
    assert_eq!(accepted().await, (false, true));
    // While the file is missing, or only partly written, the earlier keys remain valid. Each case is reported once.
    let (log, _guard) = Log::listen();
    fs::write(&path, r#"{"keys": ["#).unwrap();
    assert_eq!([accepted().await, accepted().await], [(false, true); 2]);
    fs::remove_file(&path).unwrap();
    assert_eq!([accepted().await, accepted().await], [(false, true); 2]);
    assert_eq!(log.all().matches("path=").count(), 2, "{}", log.all());
    write(&path, &[&first]);
    assert_eq!(accepted().await, (true, false));
    write(&path, &[]);
    assert_eq!(accepted().await, (false, false), "an empty array revokes all keys");
}

/// Tools that copy a file may keep its time, and the clock of a file system may be coarse.
#[tokio::test]
async fn a_file_that_was_replaced_is_read_again_although_its_time_is_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let (path, next) = (directory.path().join("keys.json"), directory.path().join("next.json"));
    let [first, second] = ["a", "b"].map(|name| NewApiKey::generate(name).unwrap());
    let time = SystemTime::now() - Duration::from_secs(60);
    let write_at = |path: &Path, keys: &[&NewApiKey]| {
        write(path, keys);
        fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    };
    write_at(&path, &[&first]);
    let clock = Clock::default();
    let keys = ApiKeys::file_with(path.clone(), clock.clone()).unwrap();
    write_at(&path, &[&first, &second]);
    clock.advance(Duration::from_secs(1));
    assert!(bearer(&keys, second.secret()).await.is_ok(), "the length has changed");
    if cfg!(unix) {
        let third = NewApiKey::generate("c").unwrap();
        write_at(&next, &[&first, &third]);
        fs::rename(&next, &path).unwrap();
        clock.advance(Duration::from_secs(1));
        assert!(bearer(&keys, second.secret()).await.is_err(), "it is another file");
    }
}

#[test]
fn an_unusable_file_prevents_the_start() {
    let directory = tempfile::tempdir().unwrap();
    for (content, expected) in [
        (None, ""),
        (Some(String::new()), "EOF while parsing a value"),
        (Some(" ".repeat(1024 * 1024)), "EOF while parsing a value"),
        (Some(" ".repeat(1024 * 1024 + 1)), "the file is larger than 1 MiB"),
    ] {
        let path = directory.path().join("keys.json");
        if let Some(content) = content {
            fs::write(&path, content).unwrap();
        }
        let error = ApiKeys::file(&path).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("the API keys in `{}` are unusable: {expected}", path.display())),
            "{error}"
        );
    }
    if cfg!(unix) {
        let error = ApiKeys::file(directory.path()).unwrap_err().to_string();
        assert!(error.ends_with("not a regular file"), "{error}");
    }
}
