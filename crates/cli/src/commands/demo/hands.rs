//! The scripted agent's hands: its calls on the road of the demo's kernel.

use airlock_agent::{Asking, Handed, Hands, Leave, NoLeave, Spent, Tool};
use airlock_core::SessionId;
use airlock_kernel::{Call, Front, Kernel, handed};
use airlock_model::Cancel;
use serde_json::{Map, Value};

pub(super) struct DemoHands<'k> {
    pub(super) kernel: &'k Kernel,
    pub(super) session: SessionId,
}

impl Hands for DemoHands<'_> {
    fn tools(&self) -> Vec<Tool> {
        let offered = self.kernel.registry().list();
        let offered = offered.filter(|tool| tool.open_to(Front::Agent) && !tool.needs_person());
        offered
            .map(|tool| Tool {
                name: tool.spec().name.to_owned(),
                summary: tool.spec().summary.to_owned(),
                schema: tool.schema().into_owned(),
                read_only: tool.spec().read_only,
            })
            .collect()
    }

    fn call(&self, name: &str, arguments: &Map<String, Value>, _: &Cancel) -> Handed {
        let mut call = Call::new(name, Value::Object(arguments.clone()));
        call.session = Some(self.session.clone());
        handed(self.kernel.submit(Front::Agent, &call))
    }

    fn phase(&self) -> Option<String> {
        None
    }

    fn leave(&self, _: Asking<'_>) -> Result<Leave, NoLeave> {
        // A script is read from this program: nobody is asked anything.
        Ok(Leave::default())
    }

    fn spend(&self, _: Spent) -> Result<(), NoLeave> {
        Ok(())
    }
}
