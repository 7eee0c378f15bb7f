use std::{
    fs::{File, Metadata},
    io::{self, Read as _},
    path::Path,
    time::SystemTime,
};

use mcp_runtime::auth::Identity;
use serde_json::{Map, Value};
use subtle::{ConditionallySelectable as _, ConstantTimeEq as _};

use super::MAX_KEY;
use crate::{json::parse_object, token_cache::TokenHash};

/// The maximum size of the file in bytes, and the maximum number of keys.
const MAX_BYTES: u64 = 1024 * 1024;
const MAX_KEYS: usize = 1_000;

/// The content of the file.
pub(super) struct KeyFile {
    hashes: Vec<[u8; 32]>,
    identities: Vec<Identity>,
}

/// Identifies a version of a file. Without a file, all members are absent.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Version {
    modified: Option<SystemTime>,
    length: Option<u64>,
    inode: Option<u64>,
}

impl KeyFile {
    /// # Errors
    ///
    /// Returns what is wrong with the file.
    pub(super) fn read(path: &Path) -> Result<(Self, Version), String> {
        let (version, file) = open(path).map_err(|error| error.to_string())?;
        Ok((Self::read_from(file)?, version))
    }

    /// Reads the file if it is not of this version. Returns the new version with the content, or what is wrong with it.
    pub(super) fn read_if_changed(path: &Path, known: &Version) -> Option<(Version, Result<Self, String>)> {
        match open(path) {
            Ok((version, _)) if version == *known => None,
            Ok((version, file)) => Some((version, Self::read_from(file))),
            Err(_) if *known == Version::default() => None,
            Err(error) => Some((Version::default(), Err(error.to_string()))),
        }
    }

    fn read_from(file: File) -> Result<Self, String> {
        let mut text = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut text).map_err(|error| error.to_string())?;
        if text.len() as u64 > MAX_BYTES {
            return Err("the file is larger than 1 MiB".to_owned());
        }
        Self::parse(&text)
    }

    fn parse(text: &[u8]) -> Result<Self, String> {
        let content = parse_object(text)?;
        let keys =
            content.get("keys").and_then(Value::as_array).ok_or("expected a JSON object with an array `keys`")?;
        if keys.len() > MAX_KEYS {
            return Err(format!("{} keys, expected at most {MAX_KEYS}", keys.len()));
        }
        let mut parsed = Self { hashes: Vec::new(), identities: Vec::new() };
        for (index, key) in keys.iter().enumerate() {
            let entry = key.as_object().ok_or_else(|| "expected a JSON object".to_owned()).and_then(parse_key);
            let (hash, identity) = entry.map_err(|reason| format!("`keys[{index}]`: {reason}"))?;
            if parsed.hashes.contains(&hash) {
                return Err(format!("`keys[{index}]`: another key has the same hash"));
            }
            parsed.hashes.push(hash);
            parsed.identities.push(identity);
        }
        Ok(parsed)
    }

    /// Returns the content of a file with these keys.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with them.
    pub(super) fn of(keys: impl IntoIterator<Item = (String, Identity)>) -> Result<Self, String> {
        let mut file = Self { hashes: Vec::new(), identities: Vec::new() };
        for (key, identity) in keys {
            let hash = *TokenHash::of(&key).as_bytes();
            let problem = match key.len() {
                0 => Some("is empty"),
                length if length > MAX_KEY => Some("is longer than 1 KiB"),
                _ => file.hashes.contains(&hash).then_some("is the same as another one"),
            };
            if let Some(problem) = problem {
                return Err(format!("the API key of `{}` {problem}", identity.principal()));
            }
            if file.hashes.len() == MAX_KEYS {
                return Err(format!("more than {MAX_KEYS} API keys"));
            }
            file.hashes.push(hash);
            file.identities.push(identity);
        }
        Ok(file)
    }

    /// Returns the identity of a key. The time depends only on the number of keys.
    pub(super) fn find(&self, key: &str) -> Option<&Identity> {
        let presented = TokenHash::of(key);
        let mut found = u64::MAX;
        for (index, hash) in (0..).zip(&self.hashes) {
            found.conditional_assign(&index, hash.ct_eq(presented.as_bytes()));
        }
        self.identities.get(usize::try_from(found).ok()?)
    }
}

fn open(path: &Path) -> io::Result<(Version, File)> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let version = Version { modified: metadata.modified().ok(), length: Some(metadata.len()), inode: inode(&metadata) };
    Ok((version, file))
}

#[cfg(unix)]
fn inode(metadata: &Metadata) -> Option<u64> {
    Some(std::os::unix::fs::MetadataExt::ino(metadata))
}

#[cfg(not(unix))]
fn inode(_: &Metadata) -> Option<u64> {
    None
}

fn parse_key(entry: &Map<String, Value>) -> Result<([u8; 32], Identity), String> {
    const MEMBERS: [&str; 4] = ["sha256", "principal", "scopes", "expires"];
    if let Some(unknown) = entry.keys().find(|name| !MEMBERS.contains(&name.as_str())) {
        return Err(format!("unknown member `{}`, expected {MEMBERS:?}", unknown.escape_debug()));
    }
    let text = |name: &str| entry.get(name).and_then(Value::as_str);
    let hash = text("sha256").and_then(parse_hash).ok_or("`sha256` must be a string of 64 hexadecimal digits")?;
    let principal = text("principal").filter(|name| !name.is_empty()).ok_or("`principal` must be a string")?;
    let mut identity = Identity::new(principal);
    if let Some(scopes) = entry.get("scopes") {
        let scopes: Option<Vec<&str>> = scopes.as_array().and_then(|scopes| scopes.iter().map(Value::as_str).collect());
        identity = identity.with_scopes(scopes.ok_or("`scopes` must be an array of strings")?);
    }
    if entry.contains_key("expires") {
        let expiry = text("expires").and_then(|time| humantime::parse_rfc3339(time).ok());
        identity = identity.with_expiry(expiry.ok_or("`expires` must be a time such as `2027-01-01T00:00:00Z`")?);
    }
    Ok((hash, identity))
}

fn parse_hash(text: &str) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (index, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[index * 2..index * 2 + 2], 16).ok()?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::KeyFile;

    #[test]
    fn invalid_entries_name_the_rule() {
        let hash = "0".repeat(64);
        let valid = json!({"sha256": hash, "principal": "a"});
        let with = |name: &str, value: Value| {
            let mut entry = valid.clone();
            entry[name] = value;
            json!({"keys": [entry]}).to_string()
        };
        for (text, expected) in [
            ("[]".to_owned(), "invalid type: sequence, expected a map at line 1 column 0"),
            (r#"{"keys": [], "keys": []}"#.to_owned(), "duplicate name `keys` at line 1 column 19"),
            ("{}".to_owned(), "expected a JSON object with an array `keys`"),
            (r#"{"keys": [1]}"#.to_owned(), "`keys[0]`: expected a JSON object"),
            (with("sha256", json!("0")), "`keys[0]`: `sha256` must be a string of 64 hexadecimal digits"),
            (with("sha256", json!("+0".repeat(32))), "`keys[0]`: `sha256` must be a string of 64 hexadecimal digits"),
            (with("sha256", json!("+".repeat(64))), "`keys[0]`: `sha256` must be a string of 64 hexadecimal digits"),
            (with("principal", json!("")), "`keys[0]`: `principal` must be a string"),
            (with("scopes", json!("a b")), "`keys[0]`: `scopes` must be an array of strings"),
            (with("expires", json!("soon")), "`keys[0]`: `expires` must be a time such as `2027-01-01T00:00:00Z`"),
            (with("expires", json!(null)), "`keys[0]`: `expires` must be a time such as `2027-01-01T00:00:00Z`"),
            (
                with("expiry", json!("2027-01-01T00:00:00Z")),
                r#"`keys[0]`: unknown member `expiry`, expected ["sha256", "principal", "scopes", "expires"]"#,
            ),
            (json!({"keys": [valid, valid]}).to_string(), "`keys[1]`: another key has the same hash"),
            (json!({"keys": vec![&valid; 1_000]}).to_string(), "`keys[1]`: another key has the same hash"),
            (json!({"keys": vec![&valid; 1_001]}).to_string(), "1001 keys, expected at most 1000"),
        ] {
            assert_eq!(KeyFile::parse(text.as_bytes()).err().as_deref(), Some(expected));
        }
    }
}
