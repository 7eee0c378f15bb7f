//! Requests that servers make of the client: several servers may use the same ids, the client knows each once.

use std::collections::{HashMap, HashSet};

use super::{Generation, message::Key};

/// The requests of servers that the client has not answered.
#[derive(Debug, Default)]
pub(super) struct Questions {
    open: HashMap<Key, Question>,
    /// Ids whose server is gone: the client's answer may still come, and must not be taken for another's.
    abandoned: HashSet<Key>,
    /// The ids that were made up, to make another.
    made_up: u64,
}

#[derive(Debug)]
struct Question {
    server: Generation,
    /// The id as its server spells it.
    id: String,
    /// The id as the client knows it.
    known_as: String,
    progress: Option<Key>,
}

impl Questions {
    /// Notes a request, and gives the id that the client is to know it by.
    pub(super) fn ask(&mut self, server: Generation, id: &str, progress: Option<&str>) -> String {
        let taken = |questions: &Self, id: &str| {
            Key::read(id).is_none_or(|key| questions.open.contains_key(&key) || questions.abandoned.contains(&key))
        };
        let mut known_as = id.to_owned();
        while taken(self, &known_as) {
            self.made_up += 1;
            known_as = format!("\"cargo-mcp-{server}-{}\"", self.made_up);
        }
        if let Some(key) = Key::read(&known_as) {
            let progress = progress.and_then(Key::read);
            self.open.insert(key, Question { server, id: id.to_owned(), known_as: known_as.clone(), progress });
        }
        known_as
    }

    /// Takes the request that the client answers: who asked, and how the id is spelled there. None if nobody waits for it.
    pub(super) fn answer(&mut self, id: &str) -> Option<(Generation, String)> {
        let key = Key::read(id)?;
        self.abandoned.remove(&key);
        self.open.remove(&key).map(|question| (question.server, question.id))
    }

    /// Takes back what a server asked; gives the id that the client knows it by.
    pub(super) fn take_back(&mut self, server: Generation, id: &str) -> Option<String> {
        let wanted = Key::read(id)?;
        let is_it =
            |question: &Question| question.server == server && Key::read(&question.id).as_ref() == Some(&wanted);
        let key = self.open.iter().find(|(_, question)| is_it(question)).map(|(key, _)| key.clone())?;
        self.abandoned.insert(key.clone());
        self.open.remove(&key).map(|question| question.known_as)
    }

    /// Who waits for progress with a token.
    pub(super) fn waits_for(&self, progress: &str) -> Option<Generation> {
        let token = Key::read(progress)?;
        self.open.values().find(|question| question.progress.as_ref() == Some(&token)).map(|question| question.server)
    }

    /// Forgets what a server asked; gives the ids that the client knows.
    pub(super) fn abandon(&mut self, server: Generation) -> Vec<String> {
        let gone: Vec<_> = self.open.extract_if(|_, question| question.server == server).collect();
        self.abandoned.extend(gone.iter().map(|(key, _)| key.clone()));
        let mut ids: Vec<_> = gone.into_iter().map(|(_, question)| question.known_as).collect();
        ids.sort();
        ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_finds_who_asked() {
        let mut questions = Questions::default();
        assert_eq!(questions.ask(1, "0", Some("5")), "0");
        let other = questions.ask(2, "0", None);
        assert_ne!(other, "0");
        assert_eq!(questions.waits_for("5"), Some(1));
        assert_eq!(questions.answer(&other), Some((2, "0".to_owned())));
        assert_eq!(questions.answer("0"), Some((1, "0".to_owned())));
        assert_eq!(questions.answer("0"), None);
        assert_eq!(questions.ask(2, "0", None), "0", "a free id is kept");
    }

    #[test]
    fn a_late_answer_is_nobody_elses() {
        let mut questions = Questions::default();
        questions.ask(1, "7", None);
        assert_eq!(questions.abandon(1), ["7"]);
        let again = questions.ask(2, "7", None);
        assert_ne!(again, "7");
        assert_eq!(questions.answer("7"), None);
        assert_eq!(questions.take_back(2, "7"), Some(again));
        assert_eq!(questions.ask(3, "7", None), "7", "the late answer came");
    }
}
