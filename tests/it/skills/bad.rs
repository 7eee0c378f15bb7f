//! Invalid directories of skills, and files that change after startup.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use mcp_runtime::{Context, function::ResourceEntry};

use super::*;

/// A temporary directory, deleted on drop.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("mcp-skills-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn write(&self, path: &str, contents: impl AsRef<[u8]>) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }

    fn skill(&self, path: &str) {
        let name = path.rsplit('/').next().unwrap();
        self.write(&format!("{path}/SKILL.md"), format!("---\nname: {name}\ndescription: D\n---\n"));
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Returns the problems of a server with these directories of skills.
fn problems(directories: &[&Path]) -> Vec<String> {
    let server =
        directories.iter().fold(Server::empty("bad", "1.0.0"), |server, directory| server.with_skills(*directory));
    server.check().map_or_else(|error| error.problems().to_vec(), |()| Vec::new())
}

#[test]
fn invalid_front_matter_is_reported() {
    let long = format!("---\nname: one\ndescription: D\nlong: {}\n---\n", "x".repeat(70_000));
    let verbose = format!("---\nname: one\ndescription: {}\n---\n", "é".repeat(1025));
    let incompatible = format!("---\nname: one\ndescription: D\ncompatibility: {}\n---\n", "é".repeat(501));
    let deep = format!("---\nname: one\ndescription: D\ndeep:\n{}x\n---\n", "- ".repeat(20_000));
    let deep_flow = format!("---\nname: one\ndescription: D\ndeep: {}\n---\n", "[".repeat(20_000));
    let aliases: String = (1..30).map(|n| format!("l{n}: &l{n} [*l{0}, *l{0}, *l{0}]\n", n - 1)).collect();
    let billion_laughs = format!("---\nname: one\ndescription: D\nl0: &l0 [x, x]\n{aliases}---\n");
    for (contents, expected) in [
        ("".as_bytes(), "it has no front matter, expected `---` as its first line"),
        (b"# One\n", "it has no front matter, expected `---` as its first line"),
        (b"\n---\nname: one\ndescription: D\n---\n", "it has no front matter"),
        ("\u{feff}---\nname: one\ndescription: D\n---\n".as_bytes(), "it has no front matter"),
        (b"---\nname: one\ndescription: D\n", "its front matter is not closed, expected a second line `---`"),
        (b"---\n---\n", "its front matter must be an object, with `name` and `description`"),
        (b"---\n- one\n---\n", "its front matter must be an object"),
        (b"---\nname: [one\ndescription: D\n---\n", "its front matter is not valid YAML: "),
        (b"---\nname: one\nname: one\ndescription: D\n---\n", "its front matter is not valid YAML: "),
        (b"---\nname: one\n---\n", "`description` is missing in its front matter"),
        (b"---\nname: one\ndescription: ' '\n---\n", "`description` in its front matter is empty"),
        (b"---\nname: one\ndescription: 7\n---\n", "`description` in its front matter must be a string, but it is 7"),
        (b"---\ndescription: D\n---\n", "`name` is missing in its front matter"),
        (b"---\nname: 1\ndescription: D\n---\n", "`name` in its front matter must be a string, but it is 1"),
        (b"---\nname: other\ndescription: D\n---\n", "the name `other` differs from that of its directory, `one`"),
        (b"---\nname: One\ndescription: D\n---\n", "the name \"One\" is invalid, expected 1 to 64 lowercase letters"),
        (
            b"---\nname: one\ndescription: D\ncompatibility: 7\n---\n",
            "`compatibility` in its front matter must be a string, but it is 7",
        ),
        (incompatible.as_bytes(), "`compatibility` in its front matter has more than 500 characters"),
        (b"---\nname: one\ndescription: D\nmetadata: [1]\n---\n", "must be an object, but it is [1]"),
        (b"---\nname: one\ndescription: D\nodd: .nan\n---\n", "which JSON cannot represent"),
        (b"---\nname: one\ndescription: D\nodd: {1: 2}\n---\n", "a key that is not a string"),
        (b"---\nname: one\ndescription: D\nodd: !thing 1\n---\n", "which JSON cannot represent"),
        (b"---\nname: one\ndescription: \xff\n---\n", "is not valid UTF-8"),
        (long.as_bytes(), "its front matter has more than 65536 bytes"),
        (verbose.as_bytes(), "`description` in its front matter has more than 1024 characters"),
        (deep.as_bytes(), "its front matter is nested more than 32 levels deep"),
        (deep_flow.as_bytes(), "its front matter "),
        (billion_laughs.as_bytes(), "its front matter is not valid YAML: "),
    ] {
        let folder = Folder::new();
        folder.write("one/SKILL.md", contents);
        let problems = problems(&[&folder.0]);
        let shown = String::from_utf8_lossy(&contents[..contents.len().min(80)]).into_owned();
        assert_eq!(problems.len(), 1, "{shown}: {problems:?}");
        assert!(problems[0].contains(expected), "{shown}: {problems:?}");
        assert!(problems[0].starts_with(&format!("`{}` ", folder.0.join("one/SKILL.md").display())), "{problems:?}");
    }
    let folder = Folder::new();
    // Lists and objects that follow each other are not nested.
    let [lists, objects] = ["[], ", "{a: 1}, "]
        .map(|item| format!("---\nname: one\ndescription: D\nwide: [{}x]\n---\n", item.repeat(100)));
    let usual = "---\nname: one\ndescription: D\nlicense:\ncompatibility:\nmetadata: {version: 1.0}\nallowed-tools: [Read]\n---\n";
    for contents in [verbose.replacen('é', "", 1), incompatible.replacen('é', "", 1), usual.to_owned(), lists, objects]
    {
        folder.write("one/SKILL.md", contents);
        assert_eq!(problems(&[&folder.0]), [""; 0]);
    }
}

#[test]
fn skill_names_are_validated() {
    let longest = "a".repeat(64);
    let too_long = "a".repeat(65);
    for (name, is_valid) in [
        ("a", true),
        ("a-1-b", true),
        ("1", true),
        (longest.as_str(), true),
        (too_long.as_str(), false),
        ("-a", false),
        ("a-", false),
        ("a--b", false),
        ("a_b", false),
        ("A", false),
        ("é", false),
        ("a b", false),
    ] {
        let folder = Folder::new();
        folder.write(&format!("{name}/SKILL.md"), format!("---\nname: \"{name}\"\ndescription: D\n---\n"));
        assert_eq!(problems(&[&folder.0]).is_empty(), is_valid, "{name}");
    }
}

/// All problems are reported at once.
#[test]
fn the_files_and_bytes_of_each_skill_are_limited() {
    let folder = Folder::new();
    folder.skill("full");
    (1..512).for_each(|number| folder.write(&format!("full/{}/{number}", number % 7), "x"));
    folder.skill("heavy");
    let remaining = (16 << 20) - fs::metadata(folder.0.join("heavy/SKILL.md")).unwrap().len() as usize;
    folder.write("heavy/data.bin", vec![0; remaining]);
    assert_eq!(problems(&[&folder.0]), [""; 0]);
    for name in ["one-more", "two-more"] {
        folder.write(&format!("full/{name}"), "x");
        folder.write(&format!("heavy/{name}"), "x");
    }
    let path = |name: &str| folder.0.join(name).display().to_string();
    let expected = [
        format!("`{}` is a skill with more than 512 files, the maximum that clients must accept", path("full")),
        format!("`{}` is a skill with more than 16777216 bytes, the maximum that clients must accept", path("heavy")),
    ];
    assert_eq!(problems(&[&folder.0]), expected);
}

#[test]
fn the_files_of_a_nested_skill_count_for_the_outer_skill_as_well() {
    let folder = Folder::new();
    folder.skill("outer");
    folder.skill("outer/inner");
    (2..512).for_each(|number| folder.write(&format!("outer/inner/{number}"), "x"));
    assert_eq!(problems(&[&folder.0]), [""; 0]);
    folder.write("outer/inner/one-more", "x");
    let outer = folder.0.join("outer").display().to_string();
    let expected = format!("`{outer}` is a skill with more than 512 files, the maximum that clients must accept");
    assert_eq!(problems(&[&folder.0]), [expected]);
}

#[test]
fn unusable_directories_are_rejected() {
    let missing = Folder::new();
    let [problem] = &problems(&[&missing.0.join("nowhere")])[..] else { panic!("one problem") };
    assert!(problem.contains("nowhere` cannot be read: "), "{problem}");

    let itself = Folder::new();
    itself.write("SKILL.md", "---\nname: x\ndescription: D\n---\n");
    assert!(problems(&[&itself.0])[0].contains("is a skill, not a directory of skills"));

    let directory = Folder::new();
    directory.write("one/SKILL.md/file", "");
    assert!(problems(&[&directory.0])[0].ends_with("SKILL.md` is a directory, expected a file"));

    let file = Folder::new();
    file.write("file", "");
    assert!(problems(&[&file.0.join("file")])[0].contains("cannot be read"));

    // The directory of skills itself is one of them.
    for (above, expected) in [(30, 0), (31, 1)] {
        let deep = Folder::new();
        deep.skill(&format!("{}one", "d/".repeat(above)));
        let problems = problems(&[&deep.0]);
        let is_too_deep = |problem: &String| problem.contains("is nested more than 32 directories deep");
        assert!(problems.len() == expected && problems.iter().all(is_too_deep), "{above}: {problems:?}");
    }
}

/// Several directories share one namespace, so their URIs must not collide.
#[tokio::test]
async fn several_directories_are_served_together() {
    let (first, second) = (Folder::new(), Folder::new());
    first.skill("team/one");
    first.skill("alone");
    second.skill("team/two");
    let server = Server::empty("two", "1.0.0").with_skills(&first.0).with_skills(&second.0);
    let mut client = client(server);
    let team = all(&mut client, "resources/directory/read", "resources", json!({"uri": "skill://team"})).await;
    assert_eq!(uris(&team), ["skill://team/one", "skill://team/two"]);
    for duplicate in ["alone", "team", "team/one", "alone/below"] {
        let third = Folder::new();
        third.skill(duplicate);
        let problems = problems(&[&first.0, &third.0]);
        assert_eq!(problems.len(), 1, "{duplicate}: {problems:?}");
        assert!(problems[0].contains("has the same URI `skill://"), "{problems:?}");
    }
}

#[tokio::test]
async fn a_directory_is_hidden_with_its_skills_although_another_name_begins_with_its_own() {
    let folder = Folder::new();
    folder.skill("team/one");
    folder.skill("teams/two");
    let server = Server::empty("hidden", "1.0.0").with_skills(&folder.0);
    let mut client = client(server.visible_to(|_, entry| entry.name != "one"));
    for (uri, is_visible) in [("skill://team", false), ("skill://teams", true)] {
        let read = client.request("resources/directory/read", json!({"uri": uri})).await;
        assert_eq!(read.is_ok(), is_visible, "{uri}: {read:?}");
    }
}

/// Has the URI of a file of a skill.
#[resource("skill://git-workflow/SKILL.md")]
fn same_uri() -> &'static str {
    ""
}

#[test]
fn a_resource_with_the_uri_of_a_skill_file_is_rejected() {
    let error = server().with::<same_uri>().check().unwrap_err();
    assert!(
        error.problems()[0].ends_with("and a file of a skill have the same URI `skill://git-workflow/SKILL.md`"),
        "{error}"
    );
    assert!(Server::empty("free", "1.0.0").with::<same_uri>().check().is_ok());
    let optional = ResourceEntry::new("skill://git-workflow/SKILL.md", "same", async |_: Value, _: Context| "");
    assert!(server().with_entry(optional.optional()).check().is_ok());
}

#[tokio::test]
async fn a_directory_without_skills_is_listed_as_empty() {
    let folder = Folder::new();
    folder.write("notes/README.md", "nothing");
    let mut client = client(Server::empty("none", "1.0.0").with_skills(&folder.0));
    assert_eq!(client.request("skills/list", json!({})).await.unwrap()["skills"], json!([]));
    assert_eq!(client.request("resources/list", json!({})).await.unwrap()["resources"], json!([]));
}

/// Git writes the lines of text files like this on Windows, where names often have capital letters.
#[tokio::test]
async fn skills_may_come_from_windows() {
    let folder = Folder::new();
    let text = "---\r\nname: one\r\ndescription: D\r\n---\r\n# One\r\n";
    let files = [
        ("SKILL.md", text.as_bytes(), "text/markdown"),
        ("LOGO.PNG", b"\xff", "image/png"),
        ("NOTES.Md", b"", "text/markdown"),
        ("data.JSON", b"{}", "application/json"),
        ("page.HTML", b"", "text/html"),
        ("code.py", b"", "text/x-python"),
        ("all.tar.gz", b"\xff", "application/gzip"),
        ("LICENSE", b"", "text/plain"),
        ("model.bin", b"\xff", "application/octet-stream"),
    ];
    for (name, contents, _) in files {
        folder.write(&format!("one/{name}"), contents);
    }
    let mut client = client(Server::empty("windows", "1.0.0").with_skills(&folder.0));
    let skills = client.request("skills/list", json!({})).await.unwrap();
    assert_eq!(skills["skills"][0]["frontmatter"], json!({"name": "one", "description": "D"}));
    for (name, _, media_type) in files {
        let contents = client.read(&format!("skill://one/{name}")).await.unwrap();
        assert_eq!(contents[0]["mimeType"], media_type, "{name}");
        assert!(name != "SKILL.md" || contents[0]["text"] == text);
    }
}

/// Later changes of a file affect neither its contents nor its digest.
#[tokio::test]
async fn files_are_served_as_read_at_startup() {
    let folder = Folder::new();
    folder.skill("one");
    folder.write("one/data.txt", "before");
    let mut client = client(Server::empty("kept", "1.0.0").with_skills(&folder.0));
    let before = client.request("skills/list", json!({})).await.unwrap();
    folder.write("one/data.txt", "after");
    fs::remove_file(folder.0.join("one/SKILL.md")).unwrap();
    assert_eq!(client.read("skill://one/data.txt").await.unwrap()[0]["text"], "before");
    assert_eq!(client.request("skills/list", json!({})).await.unwrap(), before);
}

#[cfg(unix)]
mod links {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_out_of_the_directory_are_rejected() {
        let outside = Folder::new();
        outside.write("secret", "secret");
        for (link, target, expected) in [
            ("one/file", outside.0.join("secret"), Some("is a link to a target outside the directory of skills")),
            ("one/directory", outside.0.clone(), Some("is a link to a target outside the directory of skills")),
            ("one/up", "../..".into(), Some("is a link to a target outside the directory of skills")),
            ("one/root", "/".into(), Some("is a link to a target outside the directory of skills")),
            ("beside", outside.0.clone(), Some("is a link to a target outside the directory of skills")),
            ("one/loop", "..".into(), Some("is a link to a directory that contains it")),
            ("one/itself", "itself".into(), Some("cannot be read: ")),
            ("one/dangling", "nowhere".into(), Some("cannot be read: ")),
            ("one/null", "/dev/null".into(), Some("is a link to a target outside the directory of skills")),
            ("one/shared.md", "../two/SKILL.md".into(), None),
        ] {
            let folder = Folder::new();
            folder.skill("one");
            folder.skill("two");
            symlink(&target, folder.0.join(link)).unwrap();
            let problems = problems(&[&folder.0]);
            assert_eq!(problems.len(), usize::from(expected.is_some()), "{link}: {problems:?}");
            assert!(problems.first().is_none_or(|problem| problem.contains(expected.unwrap())), "{link}: {problems:?}");
        }
    }

    /// The path of the target begins with the text of the path of the directory.
    #[test]
    fn a_link_into_a_directory_with_a_longer_name_is_rejected() {
        let folder = Folder::new();
        folder.skill("skills/one");
        folder.write("skills-private/secret", "secret");
        symlink("../../skills-private/secret", folder.0.join("skills/one/file")).unwrap();
        let problems = problems(&[&folder.0.join("skills")]);
        assert!(problems.len() == 1 && problems[0].contains("outside the directory of skills"), "{problems:?}");
    }

    /// Reading a pipe could block the server.
    #[test]
    fn special_files_are_rejected() {
        let folder = Folder::new();
        folder.skill("one");
        let _socket = std::os::unix::net::UnixListener::bind(folder.0.join("one/socket")).unwrap();
        assert!(problems(&[&folder.0])[0].ends_with("is neither a file nor a directory"));
    }

    /// URIs are text, and a skill must not lack one of its files.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_whose_name_is_not_text_is_rejected() {
        use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

        let folder = Folder::new();
        folder.skill("one");
        fs::write(folder.0.join("one").join(OsStr::from_bytes(b"\xff.md")), "").unwrap();
        assert!(problems(&[&folder.0])[0].ends_with("has a name that is not valid UTF-8"));
    }

    /// Links to directories can multiply the paths exponentially.
    #[test]
    fn the_number_of_visited_directories_is_limited() {
        let folder = Folder::new();
        for level in 0..25 {
            fs::create_dir(folder.0.join(level.to_string())).unwrap();
            for side in ["left", "right"] {
                symlink(format!("../{}", level + 1), folder.0.join(format!("{level}/{side}"))).unwrap();
            }
        }
        folder.skill("25");
        let problems = problems(&[&folder.0]);
        assert!(
            problems.iter().any(|problem| problem.contains("exceeds the limit of 16384 files and directories")),
            "{:?}",
            &problems[..3.min(problems.len())]
        );
    }
}
