//! What clients call tools, and what the kernel calls them.
//!
//! Non-guarantee: a name may be of a tool that is gone by now. The kernel, which decides, says so.

use crate::describe::offered_name;
use crate::road::{Road, ToolInfo, Unanswered};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The names of the tools that were listed last, by what a client may call them.
#[derive(Clone, Default)]
pub(crate) struct Names(Arc<Mutex<HashMap<String, String>>>);

impl Names {
    /// The tools there are now.
    pub(crate) fn list(&self, road: &dyn Road) -> Result<Vec<ToolInfo>, Unanswered> {
        let tools = road.tools()?;
        let mut names = HashMap::new();
        for tool in &tools {
            names.insert(tool.name.clone(), tool.name.clone());
            // Of two with one name the first has it.
            let offered = names.entry(offered_name(&tool.name));
            offered.or_insert_with(|| tool.name.clone());
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = names;
        Ok(tools)
    }

    /// The kernel's name for what a client calls `asked`; a name of no tool stays as it is. One that
    /// is not known may be of a tool that came since, so the kernel is asked.
    pub(crate) fn find(&self, road: &dyn Road, asked: &str) -> Result<String, Unanswered> {
        if let Some(name) = self.known(asked) {
            return Ok(name);
        }
        self.list(road)?;
        Ok(self.known(asked).unwrap_or_else(|| asked.to_owned()))
    }

    fn known(&self, asked: &str) -> Option<String> {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(asked).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_core::{EffectSet, SessionId};
    use airlock_kernel::{AnswerFailure, Call, Cancel, Outcome, Review};
    use airlock_policy::approval::Gate;
    use serde_json::json;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A road whose tools change, and which counts how often it is asked for them.
    #[derive(Default)]
    struct Changing {
        tools: Mutex<Vec<ToolInfo>>,
        asked: AtomicUsize,
    }

    impl Changing {
        fn set(&self, names: &[&str]) {
            let info = |name: &&str| ToolInfo {
                name: (*name).to_owned(),
                summary: "Do it".to_owned(),
                schema: json!({}),
                examples: Vec::new(),
                read_only: true,
                effects: EffectSet::of(&[]),
            };
            *self.tools.lock().unwrap() = names.iter().map(info).collect();
        }
    }

    impl Road for Changing {
        fn begin(&self) -> Result<Option<SessionId>, Unanswered> {
            Ok(None)
        }

        fn end(&self, _: &SessionId) {}

        fn tools(&self) -> Result<Vec<ToolInfo>, Unanswered> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            Ok(self.tools.lock().unwrap().clone())
        }

        fn call(&self, _: &Call, _: &Cancel) -> Result<Outcome, Unanswered> {
            Err(Unanswered {
                what: "nothing is called".to_owned(),
                fix: String::new(),
            })
        }

        fn opened_to_client(&self, _: Gate) -> bool {
            false
        }

        fn answer(&self, _: &mut Review, _: bool) -> Result<(), AnswerFailure> {
            Ok(())
        }
    }

    #[test]
    fn both_names_of_a_tool_lead_to_it_and_no_other_does() {
        let (road, names) = (Changing::default(), Names::default());
        road.set(&["fs.read", "session.set_mode"]);
        for (asked, meant) in [
            ("fs_read", "fs.read"),
            ("fs.read", "fs.read"),
            ("session_set_mode", "session.set_mode"),
            ("fs/read", "fs/read"),
            ("../fs.read", "../fs.read"),
            ("FS_READ", "FS_READ"),
        ] {
            assert_eq!(names.find(&road, asked).unwrap(), meant);
        }
    }

    #[test]
    fn a_tool_that_came_since_is_found_and_one_that_went_is_not_listed() {
        let (road, names) = (Changing::default(), Names::default());
        road.set(&["fs.read"]);
        assert_eq!(names.find(&road, "fs_read").unwrap(), "fs.read");
        assert_eq!(names.find(&road, "fs_read").unwrap(), "fs.read");
        assert_eq!(
            road.asked.load(Ordering::SeqCst),
            1,
            "what is known is not asked"
        );
        road.set(&["fs.read", "tickets.open_all"]);
        let found = names.find(&road, "tickets_open_all").unwrap();
        assert_eq!(found, "tickets.open_all");
        road.set(&["fs.read"]);
        assert_eq!(names.list(&road).unwrap().len(), 1);
        let gone = names.find(&road, "tickets_open_all").unwrap();
        assert_eq!(gone, "tickets_open_all");
    }

    #[test]
    fn what_two_tools_are_called_is_the_first_ones_name() {
        let (road, names) = (Changing::default(), Names::default());
        road.set(&["a.b_c", "a_b.c"]);
        assert_eq!(names.find(&road, "a_b_c").unwrap(), "a.b_c");
        assert_eq!(names.find(&road, "a_b.c").unwrap(), "a_b.c");
    }
}
