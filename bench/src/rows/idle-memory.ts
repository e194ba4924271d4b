import { spawn } from "node:child_process";
import { once } from "node:events";
import type { Benchmark } from "../figure.ts";
import { startLocalKeelson } from "../local-keelson.ts";
import { residentMiB } from "../process-use.ts";

/** Resident memory of an idle `keelson up`. */
export const idleMemory: Benchmark = {
  name: "idle-memory",
  async run() {
    const keelson = await startLocalKeelson();
    const bare = spawn(process.execPath, ["-e", "process.stdout.write('up'); setInterval(() => {}, 1e6)"], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    await once(bare.stdout, "data");
    // Garbage of the start is collected in this time.
    await new Promise((resolve) => setTimeout(resolve, 5_000));
    const ours = residentMiB(keelson.process.child.pid);
    const peer = residentMiB(bare.pid);
    bare.kill();
    await keelson.stop();
    return [
      {
        name: "keelson up, idle 5 s after ready, resident",
        unit: "MiB",
        ours,
        peer: { name: "an idle node process", value: peer },
      },
    ];
  },
};
