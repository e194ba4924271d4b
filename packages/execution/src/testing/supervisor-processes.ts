import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import type { ProgramSpec } from "../driver.ts";

/** Supervisors in child processes that a test can kill. */
export interface SupervisorProcesses {
  /** Starts a supervisor with these programs; resolves when they run. `options` are the driver's options, as JSON. */
  supervise(options: Readonly<Record<string, string>>, specs: readonly ProgramSpec[]): Promise<ChildProcess>;
  /** Kills all of them with SIGKILL; resolves when they have exited. */
  kill(): Promise<void>;
}

type Create = "createProcessDriver" | "createContainerdDriver";

/** The command line of a supervisor that starts these programs and keeps running. `options` are the driver's options, as JSON. */
export function supervisorCommand(
  create: Create,
  options: Readonly<Record<string, string>>,
  specs: readonly ProgramSpec[],
): readonly [string, ...string[]] {
  const script = `
    import { ${create} } from ${JSON.stringify(new URL("../../dist/index.js", import.meta.url).href)};
    const clock = { now: Date.now, monotonic: () => performance.now(), setTimer: (ms, f) => { const t = setTimeout(f, ms); return { cancel: () => clearTimeout(t) }; } };
    const [options, specs] = process.argv.slice(1).map((each) => JSON.parse(each));
    const driver = await ${create}({ ...options, clock, random: Math.random });
    for (const spec of specs) await driver.start(spec);
    process.stdout.write("started");
    setInterval(() => {}, 1 << 30);
  `;
  return [process.execPath, "--input-type=module", "-e", script, JSON.stringify(options), JSON.stringify(specs)];
}

/** Creates supervisors with the driver function `create` of the built package. */
export function createSupervisorProcesses(create: Create): SupervisorProcesses {
  const children: ChildProcess[] = [];
  return {
    async supervise(options, specs) {
      const [program, ...words] = supervisorCommand(create, options, specs);
      const child = spawn(program, words, { stdio: ["ignore", "pipe", "inherit"] });
      children.push(child);
      if (child.stdout !== null) await once(child.stdout, "data");
      return child;
    },
    async kill() {
      for (const child of children.splice(0)) {
        if (child.exitCode !== null || child.signalCode !== null) continue;
        const gone = once(child, "exit");
        child.kill("SIGKILL");
        await gone;
      }
    },
  };
}
