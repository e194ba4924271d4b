/** Variables with which an agent gets its secrets. */
const secretNames: ReadonlySet<string> = new Set(["AGENT_TOKEN", "PROGRAM_PASSWORD", "REDIS_PASSWORD"]);

/** The environment of a program: that of its agent without the agent's secrets, which clients of some programs can read. */
export function programEnvironment(environment: NodeJS.ProcessEnv = process.env): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !secretNames.has(name)));
}
