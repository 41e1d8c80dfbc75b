//! What clients call tools, and what the kernel calls them.
//!
//! Guarantee: no two tools are listed by one name. Non-guarantee: a name may be of a tool that is gone
//! by now. The kernel, which decides, says so.

use crate::describe::offered_name;
use crate::road::{Road, ToolInfo, Unanswered};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// A tool that clients are not offered, because an earlier one has its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The tool.
    pub tool: String,
    /// What both would be called.
    pub offered: String,
    /// The tool that is called so.
    pub has_it: String,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            tool,
            offered,
            has_it,
        } = self;
        write!(
            f,
            "the tool `{tool}` is not offered to MCP clients: `{has_it}` is `{offered}` there already"
        )
    }
}

/// Those of `tools` that clients are not offered. Of two with one name the first has it, and those
/// that are built in come first.
pub fn left_out(tools: &[ToolInfo]) -> Vec<LeftOut> {
    let mut taken: HashMap<String, &str> = HashMap::new();
    let mut left = Vec::new();
    for tool in tools {
        let offered = offered_name(&tool.name);
        if let Some(has_it) = taken.get(&offered) {
            left.push(LeftOut {
                tool: tool.name.clone(),
                has_it: (*has_it).to_owned(),
                offered,
            });
        } else {
            taken.insert(offered, &tool.name);
        }
    }
    left
}

/// The names of the tools that were listed last, by what a client may call them.
#[derive(Clone, Default)]
pub(crate) struct Names(Arc<Mutex<HashMap<String, String>>>);

impl Names {
    /// The tools there are now, without those that are left out. Those are found by their own names.
    pub(crate) fn list(&self, road: &dyn Road) -> Result<Vec<ToolInfo>, Unanswered> {
        let mut tools = road.tools()?;
        let mut names: HashMap<String, String> = tools
            .iter()
            .map(|tool| (tool.name.clone(), tool.name.clone()))
            .collect();
        let left = left_out(&tools);
        tools.retain(|tool| left.iter().all(|left| left.tool != tool.name));
        for tool in &tools {
            names.insert(offered_name(&tool.name), tool.name.clone());
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
    fn what_two_tools_are_called_is_the_first_ones_name_and_the_other_is_left_out() {
        let (road, names) = (Changing::default(), Names::default());
        road.set(&["a.b_c", "fs.read", "a_b.c"]);
        assert_eq!(names.find(&road, "a_b_c").unwrap(), "a.b_c");
        assert_eq!(names.find(&road, "a_b.c").unwrap(), "a_b.c");
        let listed = names.list(&road).unwrap();
        let listed: Vec<&str> = listed.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(listed, ["a.b_c", "fs.read"]);
        let left = left_out(&road.tools().unwrap());
        let said: Vec<String> = left.iter().map(ToString::to_string).collect();
        let want =
            "the tool `a_b.c` is not offered to MCP clients: `a.b_c` is `a_b_c` there already";
        assert_eq!(said, [want]);
    }
}
