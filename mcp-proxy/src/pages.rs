//! Web pages that users were asked to open, until the upstream reports that they are complete.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use mcp_runtime::ask::{UrlCompletion, UrlElicitation};

/// The maximum number of pages of a connection. The completion of the oldest one is not reported.
const MAX_PAGES: usize = 256;
/// The maximum length of the id of a page.
const MAX_ID_LENGTH: usize = 256;

/// The pages of a connection by the ids of the upstream, with the oldest first. The clients that were asked know them by ids of this
/// server.
#[derive(Default)]
pub(crate) struct Pages(Mutex<VecDeque<(String, UrlCompletion)>>);

impl Pages {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(String, UrlCompletion)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a page, if the upstream has given it an id.
    pub(crate) fn add(&self, page: UrlElicitation, id: Option<&str>) -> UrlElicitation {
        let Some(id) = id.filter(|id| (1..=MAX_ID_LENGTH).contains(&id.len())) else { return page };
        let (page, completion) = page.with_completion();
        let mut pages = self.lock();
        if pages.len() == MAX_PAGES {
            pages.pop_front();
        }
        pages.push_back((id.to_owned(), completion));
        page
    }

    /// Tells the client that was asked to open a page that it is complete.
    pub(crate) fn complete(&self, id: &str) {
        let mut pages = self.lock();
        while let Some(position) = pages.iter().position(|(page, _)| page == id) {
            pages.remove(position).map(|(_, completion)| completion.complete());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_kept_until_they_are_complete_or_too_many() {
        let pages = Pages::default();
        let add = |id: &str| {
            pages.add(UrlElicitation::new("page", "https://example.com", "Connect."), Some(id));
            pages.lock().len()
        };
        for id in ["a", "b", "a"] {
            add(id);
        }
        pages.complete("a");
        assert_eq!(pages.lock().len(), 1, "both clients are told");
        for (length, count) in [(0, 1), (256, 2), (257, 2)] {
            assert_eq!(add(&"x".repeat(length)), count, "an id of {length} bytes");
        }
        let most = (0..2 * MAX_PAGES).map(|number| add(&number.to_string())).max();
        assert_eq!(most, Some(MAX_PAGES));
    }
}
