//! Serves a directory as resources. Nothing outside the directory can be read: not through `..`, absolute paths or
//! symbolic links. Hidden files, whose names start with a dot, are not served.
//!
//! ```text
//! cargo run -p files -- --root docs
//! ```

mod root;

use std::{io, path::PathBuf};

use mcp_runtime::{Resource, ResourceLink, Server, resource, resource_uri, server, tool};

use root::Root;

/// A file in the directory.
#[resource("files:///{+path}", list = all_files, complete(path = paths_starting_with), blocking)]
fn file(root: &Root, path: String) -> io::Result<Resource> {
    let bytes = root.read(&path)?;
    let mime_type = mime_guess::from_path(&path).first_raw();
    let resource = match String::from_utf8(bytes) {
        Ok(text) => Resource::text("", text).with_mime_type(mime_type.unwrap_or("text/plain")),
        Err(binary) => {
            Resource::blob("", binary.into_bytes()).with_mime_type(mime_type.unwrap_or("application/octet-stream"))
        }
    };
    Ok(resource)
}

/// Find files whose path contains a text.
#[tool(read_only, blocking)]
fn find_files(
    root: &Root,
    /// The text to search for, ignoring case.
    part: String,
    /// The maximum number of files to return.
    #[arg(default = 20, range = 1..=200)]
    limit: usize,
) -> io::Result<Vec<ResourceLink>> {
    let part = part.to_lowercase();
    let files = root.files()?.into_iter();
    Ok(files.filter(|file| file.path.to_lowercase().contains(&part)).take(limit).map(link).collect())
}

fn link(found: root::Found) -> ResourceLink {
    let mut link =
        ResourceLink::new(resource_uri::<file>(&[("path", &found.path)]), found.path.clone()).with_size(found.size);
    link.mime_type = mime_guess::from_path(&found.path).first_raw().map(Into::into);
    link
}

fn all_files(root: &Root) -> io::Result<Vec<ResourceLink>> {
    Ok(root.files()?.into_iter().map(link).collect())
}

fn paths_starting_with(root: &Root, prefix: &str) -> io::Result<Vec<String>> {
    let paths = root.files()?.into_iter().map(|file| file.path);
    Ok(paths.filter(|path| path.starts_with(prefix)).collect())
}

#[server]
fn main(
    server: Server,
    /// The directory to serve.
    #[arg(default = ".", env = "FILES_ROOT")]
    root: PathBuf,
) -> io::Result<Server> {
    Ok(server.title("Files").with_state(Root::open(&root)?))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use mcp_runtime::{Revision, testing::TestClient};
    use serde_json::json;

    use super::*;

    /// Serves a directory with some files, and with links to a secret that is next to the directory.
    fn client() -> (tempfile::TempDir, TestClient) {
        let top = tempfile::tempdir().unwrap();
        let served = top.path().join("served");
        fs::create_dir_all(served.join("sub dir")).unwrap();
        fs::write(top.path().join("secret.txt"), "secret").unwrap();
        fs::write(served.join("readme.md"), "# Hello").unwrap();
        fs::write(served.join("sub dir/data.bin"), [0xff, 0x00]).unwrap();
        fs::create_dir(served.join(".git")).unwrap();
        for hidden in [".env", ".git/config", "sub dir/.env"] {
            fs::write(served.join(hidden), "secret").unwrap();
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(top.path().join("secret.txt"), served.join("link.txt")).unwrap();
            std::os::unix::fs::symlink(top.path(), served.join("up")).unwrap();
            std::os::unix::fs::symlink(".env", served.join("visible.txt")).unwrap();
            assert!(std::process::Command::new("mkfifo").arg(served.join("pipe")).status().unwrap().success());
        }
        let server = Server::new("files", "0.1.0").with_state(Root::open(&served).unwrap());
        (top, server.test_client(Revision::V2025_11_25))
    }

    #[tokio::test]
    async fn files_are_listed_and_read() {
        let (_top, mut client) = client();
        let listed = client.request("resources/list", json!({})).await.unwrap();
        let uris: Vec<_> = listed["resources"].as_array().unwrap().iter().map(|file| file["uri"].as_str()).collect();
        assert_eq!(uris, [Some("files:///readme.md"), Some("files:///sub%20dir/data.bin")]);

        let read = client.read("files:///readme.md").await.unwrap();
        assert_eq!(read[0], json!({"uri": "files:///readme.md", "mimeType": "text/markdown", "text": "# Hello"}));
        let read = client.read("files:///sub%20dir/data.bin").await.unwrap();
        assert_eq!(read[0]["blob"], "/wA=");
    }

    #[tokio::test]
    async fn nothing_outside_and_nothing_hidden_is_read() {
        let (top, mut client) = client();
        let absolute = format!("files:///{}/secret.txt", top.path().display());
        for uri in [
            "files:///../secret.txt",
            "files:///%2e%2e/secret.txt",
            "files:///sub%20dir/../../secret.txt",
            "files:///..%2fsecret.txt",
            "files:///link.txt",
            "files:///up/secret.txt",
            "files:///up/served/readme.md",
            &absolute,
            "files:///.env",
            "files:///%2Eenv",
            "files:///.git/config",
            "files:///sub%20dir/.env",
            "files:///sub%20dir/./.env",
            "files:///visible.txt",
            "files:///nothing",
            "files:///pipe",
            "files:///sub%20dir",
        ] {
            let refused = client.read(uri).await.unwrap_err();
            assert_eq!((refused.code, refused.message), (-32002, format!("resource not found: {uri}")), "{uri}");
        }
    }

    #[tokio::test]
    async fn files_are_found_and_completed() {
        let (_top, mut client) = client();
        let found = client.call("find_files", json!({"part": "DATA"})).await.unwrap();
        assert_eq!(found.0["content"][0]["uri"], "files:///sub%20dir/data.bin");
        let template = json!({"type": "ref/resource", "uri": "files:///{+path}"});
        assert_eq!(client.complete(template.clone(), "path", "re").await.unwrap(), ["readme.md"]);
        assert_eq!(client.complete(template, "path", ".").await.unwrap(), [""; 0]);
    }
}
