use std::{
    fs, io,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ctutils::CtEq as _;
use http::request::Parts;
use sha2::{Digest as _, Sha256};

use super::{
    AuthenticateFuture, AuthenticationError, Authenticator, Identity,
    authenticator::{credentials, is_token68},
};
use crate::{
    random,
    replace_file::{Readers, lock_directory, replace_file},
    stdx::debug,
};

/// The name of the principal: all clients that know the token.
const PRINCIPAL: &str = "token-file";

/// An authenticator for a server on the user's own machine: every request must carry the token in a file, as
/// `Authorization: Bearer …`.
///
/// Every user of a machine reaches its loopback addresses, and so does a program that the user runs in a sandbox. With a
/// token, only users and programs that can read the file can use the server.
///
/// All requests belong to one [`Principal`](crate::auth::Principal). For several users, use tokens that tell them apart.
///
/// ```no_run
/// use mcp_runtime::{Server, auth::TokenFile};
///
/// # fn configure(server: Server) -> std::io::Result<Server> {
/// Ok(server.authenticate(TokenFile::open("/home/ada/.config/notes/token")?))
/// # }
/// ```
///
/// The option `--token-file` of `main!()` and `#[server]` does the same.
#[derive(Clone)]
pub struct TokenFile {
    path: PathBuf,
    /// The digest of the token. Digests of all tokens have the same length, so comparing them takes the same time.
    digest: [u8; 32],
}

impl TokenFile {
    /// Reads the token from a file. White space around it is ignored.
    ///
    /// If the file is missing or empty, generates a token of 256 random bits and writes it to the file, which only the
    /// user of the process can read (on Unix). Of several processes that open the same file at once, one generates the
    /// token, and the other processes read it (on Unix, in a directory that can be locked).
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read or written, if it belongs to another user (on Unix), or if it contains
    /// anything but one token of [RFC 6750](https://www.rfc-editor.org/rfc/rfc6750#section-2.1): letters, digits and
    /// `-._~+/`, and `=` at the end.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let token = read_or_generate(&path)
            .map_err(|error| io::Error::new(error.kind(), format!("token file `{}`: {error}", path.display())))?;
        Ok(Self { digest: Sha256::digest(&token).into(), path })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn accepts(&self, token: &str) -> bool {
        let digest: [u8; 32] = Sha256::digest(token).into();
        digest.ct_eq(&self.digest).to_bool()
    }
}

impl Authenticator for TokenFile {
    fn authenticate<'a>(&'a self, request: &'a Parts) -> AuthenticateFuture<'a> {
        let identity = credentials(request, "Bearer").and_then(|token| {
            let invalid = || AuthenticationError::invalid("the token is not the one of this server");
            if self.accepts(token) { Ok(Identity::new(PRINCIPAL)) } else { Err(invalid()) }
        });
        Box::pin(std::future::ready(identity))
    }
}

// Omits the digest, which would allow to test guesses of a short token.
debug!(TokenFile, self, path: self.path);

fn read_or_generate(path: &Path) -> io::Result<String> {
    if let Some(token) = read(path)? {
        warn_if_readable(path);
        return Ok(token);
    }
    // Of several servers that start at once, the first generates the token, and the other servers read it.
    let _lock = lock_directory(path);
    read(path)?.map_or_else(|| generate(path), Ok)
}

/// Reads the token of a file. Returns `None` if the file is missing or empty.
fn read(path: &Path) -> io::Result<Option<String>> {
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    #[cfg(unix)]
    check_owner(&file)?;
    match io::read_to_string(file)?.trim() {
        "" => Ok(None),
        token if is_token68(token) => Ok(Some(token.to_owned())),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "expected one token of letters, digits and `-._~+/`\nhelp: delete the file to generate a token",
        )),
    }
}

/// Checks that a file belongs to the user of the process or to root: any other owner knows the token.
#[cfg(unix)]
fn check_owner(file: &fs::File) -> io::Result<()> {
    let owner = std::os::unix::fs::MetadataExt::uid(&file.metadata()?);
    let own = rustix::process::geteuid().as_raw();
    if [0, own].contains(&owner) {
        return Ok(());
    }
    let problem = format!("it belongs to user {owner}, who knows the token, but the server runs as user {own}");
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("{problem}\nhelp: give the file to user {own} or root"),
    ))
}

/// Generates a token and writes it to a file.
fn generate(path: &Path) -> io::Result<String> {
    let mut bytes = [0; 32];
    if !random::fill(&mut bytes) {
        return Err(io::Error::other("the operating system provides no random bytes"));
    }
    let token = URL_SAFE_NO_PAD.encode(bytes);
    replace_file(path, &format!("{token}\n"), Readers::User)?;
    Ok(token)
}

/// Warns if other users can read a token.
#[cfg(unix)]
fn warn_if_readable(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;

    if fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0) {
        let path = path.display();
        tracing::warn!(%path, "other users of this machine may read the token: run `chmod 600` on the file");
    }
}

#[cfg(not(unix))]
fn warn_if_readable(_: &Path) {}

#[cfg(test)]
mod tests {
    use super::*;

    struct Directory(PathBuf);

    impl Directory {
        fn new() -> Self {
            let path = std::env::temp_dir().join(random::id().expect("random bytes"));
            fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_token_is_generated_once() {
        let directory = Directory::new();
        let mut tokens = Vec::new();
        for (name, before) in [("missing", None), ("empty", Some("")), ("blank", Some(" \n"))] {
            let path = directory.0.join(name);
            before.inspect(|text| fs::write(&path, text).unwrap());
            let first = TokenFile::open(&path).unwrap();
            let token = fs::read_to_string(&path).unwrap();
            // 256 bits in base64.
            assert_eq!(token.trim().len(), 43, "{token}");
            #[cfg(unix)]
            assert_eq!(
                std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions()) & 0o777,
                0o600
            );
            assert_eq!(TokenFile::open(&path).unwrap().digest, first.digest);
            assert_eq!(fs::read_to_string(&path).unwrap(), token);
            tokens.push(token);
        }
        tokens.dedup();
        assert_eq!(tokens.len(), 3);
    }

    #[cfg(unix)]
    #[test]
    fn servers_that_start_at_once_have_the_same_token() {
        let directory = Directory::new();
        for (round, before) in [None, Some("")].into_iter().cycle().take(50).enumerate() {
            let path = directory.0.join(round.to_string());
            before.inspect(|text| fs::write(&path, text).unwrap());
            let barrier = std::sync::Barrier::new(4);
            let digests = std::thread::scope(|scope| {
                let open = || {
                    barrier.wait();
                    TokenFile::open(&path).unwrap().digest
                };
                let servers: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
                servers.into_iter().map(|server| server.join().unwrap()).collect::<Vec<_>>()
            });
            let kept: [u8; 32] = Sha256::digest(fs::read_to_string(&path).unwrap().trim()).into();
            assert!(digests.iter().all(|digest| *digest == kept), "round {round}");
        }
    }

    /// Only root can give files away, so nothing is tested for other users.
    #[cfg(unix)]
    #[test]
    fn a_file_of_another_user_is_refused() {
        let directory = Directory::new();
        let path = directory.0.join("token");
        fs::write(&path, "abc").unwrap();
        if std::os::unix::fs::chown(&path, Some(12345), None).is_ok() {
            let error = TokenFile::open(&path).unwrap_err();
            assert!(error.to_string().contains("it belongs to user"), "{error}");
        }
    }

    #[test]
    fn only_the_token_of_the_file_is_accepted() {
        let directory = Directory::new();
        let path = directory.0.join("token");
        fs::write(&path, " abc-123_~+/== \n").unwrap();
        let file = TokenFile::open(&path).unwrap();
        for (token, accepted) in
            [("abc-123_~+/==", true), ("abc-123_~+/=", false), ("abc", false), ("", false), ("ABC-123_~+/==", false)]
        {
            assert_eq!(file.accepts(token), accepted, "{token:?}");
        }
        assert!(!format!("{file:?}").contains("digest"));
    }

    /// Only a missing file is created. A file that cannot be opened is left alone.
    #[cfg(unix)]
    #[test]
    fn a_link_to_itself_is_kept() {
        let directory = Directory::new();
        let path = directory.0.join("token");
        std::os::unix::fs::symlink(&path, &path).unwrap();
        assert!(TokenFile::open(&path).is_err());
        assert_eq!(fs::read_link(&path).unwrap(), path);
    }

    #[test]
    fn invalid_files_are_errors() {
        let directory = Directory::new();
        for (name, content, reason) in [
            ("words", Some("two words"), "expected one token"),
            ("lines", Some("a\nb"), "expected one token"),
            ("ä", Some("gr\u{fc}n"), "expected one token"),
            ("missing/token", None, ""),
            (".", None, ""),
        ] {
            let path = directory.0.join(name);
            content.inspect(|text| fs::write(&path, text).unwrap());
            let error = TokenFile::open(&path).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("token file `{}`: ", path.display())) && error.contains(reason),
                "{error}"
            );
        }
    }
}
