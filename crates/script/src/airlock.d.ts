// What Airlock gives a policy script and takes back from it. For editors; scripts import nothing.

type Effect = "read" | "write" | "delete" | "execute" | "network" | "secret" | "control";

interface Caller {
  /** The plugin it acts as; the fronts are `cli`, `agent`, `mcp` and `server`. */
  plugin: string;
  user: string;
  tenant: string;
  workspace: string;
  session: string | null;
  /** Given by policy, never by the caller itself. */
  tags: string[];
  sandbox: string | null;
  mode: "strict" | "explore" | "debug" | null;
  phase: string | null;
}

interface Request {
  /** For example `fs.write`. */
  syscall: string;
  effects: Effect[];
  /** Relative to the workspace inside it, absolute outside; real targets of symlinks included. */
  paths: string[];
  host: string | null;
  port: number | null;
  /** Program and arguments; empty where nothing is run. */
  command: string[];
  /** `<plugin>.<tool>` for a plugin's. */
  tool: string | null;
  /** The name of a secret, never its value. */
  secret: string | null;
  tier: "kernel" | "wasm" | "process" | "container";
  template: string | null;
  /** The largest file it would write, in bytes. */
  file_size: number | null;
  /** The arguments as validated; their form depends on the syscall. */
  arguments: any;
  caller: Caller;
}

type Decision = "allow" | "deny" | "require_review" | "pass";

type Answer = Decision | { decision: Decision; reason?: string };
